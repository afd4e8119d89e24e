use std::collections::VecDeque;

use super::*;
use crate::replacement::dice::Dice;

#[test]
fn what_was_rotated_is_known_until_it_moves() {
    let (mut queues, queue) = (Queues::<2>::new(4), Queue(1));
    (1..=3).for_each(|number| queues.push_back(queue, number));
    assert_eq!([queues.rotate(queue), queues.rotate(queue)], [Some(1), Some(2)]);
    let rotated = |queues: &Queues<2>| [1, 2, 3, 4].map(|number| queues.is_rotated(number));
    assert_eq!(rotated(&queues), [true, true, false, false]);
    assert_eq!(queues.place(1), Some(queue));
    queues.push_back(queue, 1);
    assert!(queues.replace(2, 4));
    assert_eq!(rotated(&queues), [false; 4]);
    assert_eq!(queues.rotate(queue), Some(3));
    queues.remove(3);
    assert_eq!(rotated(&queues), [false; 4]);
}

#[test]
fn queues_do_as_deques_do() {
    const NUMBERS: u32 = 20;
    let mut queues = Queues::<2>::new(NUMBERS);
    let mut model = [VecDeque::new(), VecDeque::new()];
    let dice = Dice::new();
    for _ in 0..20_000 {
        let (number, other) = (dice.below(NUMBERS) + 1, dice.below(NUMBERS) + 1);
        let which = dice.below(2) as usize;
        let queue = Queue(which as u8);
        let home = model.iter().position(|deque| deque.contains(&number));
        let drop = |model: &mut [VecDeque<u32>; 2], number| {
            model.iter_mut().for_each(|deque| deque.retain(|&n| n != number));
        };
        match dice.below(5) {
            0 => {
                queues.push_back(queue, number);
                drop(&mut model, number);
                model[which].push_back(number);
            }
            1 => {
                queues.push_front(queue, number);
                drop(&mut model, number);
                model[which].push_front(number);
            }
            2 => {
                assert_eq!(queues.remove(number), home.is_some());
                drop(&mut model, number);
            }
            3 => {
                let first = model[which].pop_front();
                model[which].extend(first);
                assert_eq!(queues.rotate(queue), first);
            }
            _ if number != other => {
                assert_eq!(queues.replace(number, other), home.is_some());
                if let Some(home) = home {
                    drop(&mut model, other);
                    let at = model[home].iter().position(|&n| n == number);
                    model[home][at.expect("it was there")] = other;
                }
            }
            _ => {}
        }
        for (i, deque) in model.iter().enumerate() {
            let queue = Queue(i as u8);
            assert_eq!(queues.len(queue) as usize, deque.len());
            let mut seen = Vec::new();
            for _ in 0..deque.len() {
                seen.extend(queues.rotate(queue));
            }
            assert_eq!(deque, &seen);
            assert!(deque.iter().all(|&number| queues.place(number) == Some(queue)));
        }
    }
}
