use super::super::tests::assert_balanced;
use super::*;

fn point(at: f64, value: f64) -> Point {
    Point { at, value, low: value * 0.9, high: value * 1.1 }
}

fn show(value: f64) -> String {
    format!("{value}")
}

fn line(points: Vec<Point>) -> Series {
    Series { name: "a < b".to_owned(), ..Series::behind(&[], "array", points) }
}

fn bar(value: f64) -> Series {
    Series::behind(&[], "hash", vec![point(0.0, value)])
}

fn drawn(series: &[Series], across: Scale, up: Scale) -> Option<String> {
    lines(series, (across, up), &show).map(Markup::into_string)
}

#[test]
fn nothing_is_drawn_of_nothing() {
    assert!(bars(&[], &show).is_none());
    assert!(bars(&[bar(f64::NAN)], &show).is_none());
    for (across, up) in [Scale::Even, Scale::Linear].into_iter().zip([Scale::Linear, Scale::Log]) {
        assert_eq!(drawn(&[], across, up), None);
        assert_eq!(drawn(&[line(vec![])], across, up), None);
        assert_eq!(drawn(&[line(vec![point(1.0, f64::NAN)])], across, up), None);
    }
}

#[test]
fn what_is_no_number_is_left_out() {
    let table = bars(&[bar(f64::INFINITY), bar(2.0), bar(0.0)], &show).unwrap().into_string();
    assert_eq!(table.matches("class=\"bar\"").count(), 2);
    let points = vec![point(1.0, 5.0), point(2.0, f64::NAN), point(4.0, 0.0)];
    for scale in [Scale::Linear, Scale::Log] {
        let drawn = drawn(&[line(points.clone())], Scale::Even, scale).unwrap();
        assert_eq!(drawn.matches("<circle").count(), 2);
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        assert!(drawn.contains("a &lt; b"));
        assert_balanced(&drawn);
    }
}

#[test]
fn the_longest_bar_has_all_the_width_with_its_interval() {
    let table = bars(&[bar(30.0), bar(15.0)], &show).unwrap().into_string();
    let widths: Vec<f64> = table
        .split("style=\"width:")
        .skip(1)
        .map(|rest| rest.split('%').next().unwrap().parse().unwrap())
        .collect();
    assert!((widths[0] * 1.1 - 100.0).abs() < 0.2 && (widths[1] * 2.0 - widths[0]).abs() < 0.2);
    assert_balanced(&table);
}

#[test]
fn zeros_alone_have_an_axis_too() {
    for scale in [Scale::Linear, Scale::Log] {
        let drawn = drawn(&[line(vec![point(1.0, 0.0)])], Scale::Even, scale).unwrap();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
    assert!(!bars(&[bar(0.0)], &show).unwrap().into_string().contains("NaN"));
}

#[test]
fn many_points_are_a_line_without_marks() {
    let many = (1..=200).map(|i| point(f64::from(i) / 10.0, f64::from(i % 7))).collect();
    let series = [line(many), line(vec![point(0.0, 0.0)])];
    let drawn = drawn(&series, Scale::Linear, Scale::Linear).unwrap();
    assert_balanced(&drawn);
    assert_eq!((drawn.matches("<circle").count(), drawn.matches("<polyline").count()), (0, 2));
    for second in [0, 5, 10, 15, 20] {
        assert!(drawn.contains(&format!(">{second}</text>")), "{drawn}");
    }
    let at = |end: &str| drawn.matches(end).count();
    assert_eq!(at(&format!(" {},", WIDTH - RIGHT)), 1, "only the last is at the right end");
    assert!(!drawn.contains("NaN"));
}

#[test]
fn axes_have_round_figures() {
    let ticks = |high, scale| Axis::of(vec![0.0, high], scale).unwrap().ticks;
    assert_eq!(ticks(9.0, Scale::Linear), [0.0, 2.5, 5.0, 7.5, 10.0]);
    assert_eq!(ticks(30.0, Scale::Log), [10.0, 100.0]);
}

#[test]
fn an_axis_goes_down_to_what_is_below_zero() {
    let axis = Axis::of(vec![30.0, -9.0, 33.0], Scale::Linear).unwrap();
    assert_eq!(axis.ticks, [-20.0, 0.0, 20.0, 40.0]);
    let points = vec![point(1.0, 30.0), Point { at: 2.0, value: -4.0, low: -9.0, high: 1.0 }];
    let drawn = drawn(&[line(points)], Scale::Even, Scale::Linear).unwrap();
    let heights: Vec<f64> = drawn
        .split("cy=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
        .collect();
    // The lower third begins where the value is 0.
    let zero = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) / 3.0;
    assert!(heights[0] < zero && heights[1] > zero && heights[1] < HEIGHT - BOTTOM);
}

#[test]
fn translations_keep_their_colours_and_their_variants_differ() {
    let mut all = Vec::new();
    for name in
        ["hash", "array", "hash, shared", "array-plain", "swapped", "hash+inlined", "direct"]
    {
        all.push(Series::behind(&all, name, Vec::new()));
    }
    let looks: Vec<_> = all.iter().map(|of| (of.colour, of.variant)).collect();
    assert_eq!(looks, [(2, 0), (1, 0), (2, 1), (1, 1), (GREY, 0), (2, 2), (GREY, 1)]);
    assert!(designs().len() < COLOURS, "the style sheet needs another colour: {:?}", designs());
    assert!(all[0].stroke().contains("none") && all[2].stroke().contains("8 4"));
}
