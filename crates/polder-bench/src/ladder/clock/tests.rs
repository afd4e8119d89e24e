use std::thread;
use std::time::Duration;

use super::*;
use crate::meter::PATIENCE;

fn team(threads: usize, seconds: f64, interrupt: &Interrupt) -> Team<'_> {
    let limit = Some(Duration::from_secs_f64(seconds));
    Team { threads, counts: false, limit, interrupt }
}

#[test]
fn all_threads_work_until_the_time_is_over() {
    let never = Interrupt::silent();
    let driven = drive(team(2, 0.05, &never), |_| || Ok(3)).unwrap();
    assert!(driven.ops > 0 && driven.ops.is_multiple_of(3));
    assert!(driven.seconds >= 0.05);
}

#[test]
fn only_turns_are_timed() {
    let never = Interrupt::silent();
    let (turn, next_look) = (PATIENCE.mul_f64(1.25), PATIENCE.mul_f64(2.0));
    let seconds = |_| {
        let driven = drive(team(1, 600.0, &never), |_| {
            let mut left = 2;
            move || {
                left -= 1;
                if left > 0 {
                    thread::sleep(turn);
                }
                Ok(left)
            }
        });
        driven.unwrap().seconds
    };
    // Once of several times, for other tests run beside this one.
    let shortest = (0..8).map(seconds).fold(f64::INFINITY, f64::min);
    assert!(shortest >= turn.as_secs_f64());
    assert!(shortest < next_look.as_secs_f64(), "{shortest}");
}

#[test]
fn an_error_in_one_thread_ends_all() {
    let never = Interrupt::silent();
    let driven = drive(team(2, 600.0, &never), |thread| {
        move || match thread {
            0 => Ok(1),
            _ => Err(BenchError::Missing { record: 7 }),
        }
    });
    assert!(matches!(driven, Err(BenchError::Missing { record: 7 })));
}

#[test]
fn a_turn_of_nothing_ends_it() {
    let never = Interrupt::silent();
    let driven = drive(team(2, 600.0, &never), |_| {
        let mut left = 3;
        move || {
            left -= 1;
            Ok(u64::from(left > 0))
        }
    });
    assert!((2..=4).contains(&driven.unwrap().ops));
}

#[test]
fn each_thread_does_a_turn_however_short_the_time_is() {
    let driven = drive(team(4, 0.0, &Interrupt::silent()), |_| || Ok(1)).unwrap();
    assert!(driven.ops >= 4, "{driven:?}");
}

#[test]
fn so_many_turns_are_done_by_all_threads_together() {
    let done = AtomicU64::new(0);
    let turn = |_| {
        || {
            done.fetch_add(1, Relaxed);
            Ok(())
        }
    };
    drive_turns(3, 100, &Interrupt::silent(), turn).unwrap();
    assert_eq!(done.into_inner(), 100);
}

#[test]
#[should_panic(expected = "no worker")]
fn a_worker_that_is_not_made_does_not_leave_the_others_waiting() {
    let _ = drive(team(3, 600.0, &Interrupt::silent()), |thread| {
        assert!(thread != 1, "no worker");
        || Ok(1)
    });
}
