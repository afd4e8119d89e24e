use super::super::tests::assert_balanced;
use super::*;

fn point(at: f64, value: f64) -> Point {
    Point { at, value, low: value * 0.9, high: value * 1.1 }
}

fn show(value: f64) -> String {
    format!("{value}")
}

fn line(points: Vec<Point>) -> Series {
    Series { name: "a < b".to_owned(), style: Style::of_side("array"), points }
}

fn bar(value: f64) -> Bar {
    Bar { name: "hash".to_owned(), style: Style::of_side("hash"), point: point(0.0, value) }
}

#[test]
fn nothing_is_drawn_of_nothing() {
    assert_eq!(bars(&[], &show), None);
    assert_eq!(bars(&[bar(f64::NAN)], &show), None);
    for scale in [Scale::Linear, Scale::Log] {
        assert_eq!(lines(&[], scale, &show), None);
        assert_eq!(lines(&[line(vec![])], scale, &show), None);
        assert_eq!(lines(&[line(vec![point(1.0, f64::NAN)])], scale, &show), None);
    }
}

#[test]
fn what_is_no_number_is_left_out() {
    let drawn = bars(&[bar(f64::INFINITY), bar(2.0), bar(0.0)], &show).unwrap();
    assert_eq!(drawn.matches("<rect").count(), 2);
    let points = vec![point(1.0, 5.0), point(2.0, f64::NAN), point(4.0, 0.0)];
    for scale in [Scale::Linear, Scale::Log] {
        let drawn = lines(&[line(points.clone())], scale, &show).unwrap();
        assert_eq!(drawn.matches("<circle").count(), 2);
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        assert!(drawn.contains("a &lt; b"));
        assert_balanced(&drawn);
    }
}

#[test]
fn zeros_alone_have_an_axis_too() {
    for scale in [Scale::Linear, Scale::Log] {
        let drawn = lines(&[line(vec![point(1.0, 0.0)])], scale, &show).unwrap();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
    assert!(!bars(&[bar(0.0)], &show).unwrap().contains("NaN"));
}

#[test]
fn many_points_are_a_line_without_marks() {
    assert_eq!(curves(&[], &show), None);
    assert_eq!(curves(&[line(vec![point(1.0, f64::NAN)])], &show), None);
    let many = (1..=200).map(|i| point(f64::from(i) / 10.0, f64::from(i % 7))).collect();
    let drawn = curves(&[line(many), line(vec![point(0.0, 0.0)])], &show).unwrap();
    assert_balanced(&drawn);
    assert_eq!((drawn.matches("<circle").count(), drawn.matches("<polyline").count()), (0, 2));
    for second in [0, 5, 10, 15, 20] {
        assert!(drawn.contains(&format!(">{second}</text>")), "{drawn}");
    }
    let at = |end: &str| drawn.matches(end).count();
    assert_eq!(at(&format!("{:.1},", WIDTH - RIGHT)), 1, "only the last is at the right end");
    assert!(!drawn.contains("NaN") && curves(&[line(vec![])], &show).is_none());
}

#[test]
fn axes_have_round_figures() {
    let ticks = |high, scale| range([point(0.0, high / 1.1)].iter(), scale).2;
    assert_eq!(ticks(9.0, Scale::Linear), [0.0, 2.5, 5.0, 7.5, 10.0]);
    assert_eq!(ticks(30.0, Scale::Log), [10.0, 100.0]);
}

#[test]
fn an_axis_goes_down_to_what_is_below_zero() {
    let points = [point(1.0, 30.0), Point { at: 2.0, value: -4.0, low: -9.0, high: 1.0 }];
    let (from, to, ticks) = range(points.iter(), Scale::Linear);
    assert_eq!((from, to), (-20.0, 40.0));
    assert_eq!(ticks, [-20.0, 0.0, 20.0, 40.0]);
    let drawn = lines(&[line(points.to_vec())], Scale::Linear, &show).unwrap();
    let heights: Vec<f64> = drawn
        .split("cy=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
        .collect();
    // The lower third begins where the value is 0.
    let zero = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) / 3.0;
    assert!(heights[0] < zero && heights[1] > zero && heights[1] < HEIGHT - BOTTOM);
}
