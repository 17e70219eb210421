use super::{
    AxisScale, BOTTOM, Chart, ChartLine, HEIGHT, TEXT_HEIGHT, TOP, TextArea, WIDTH, draw, short,
    spread,
};

fn chart(lines: Vec<ChartLine<'static>>) -> Chart<'static> {
    let places = ["1", "2", "4", "64 on 4"].map(str::to_owned).to_vec();
    Chart { title: "create", unit: "per second", places_are: "threads", places, lines }
}

fn line(name: &'static str, values: [Option<f64>; 4]) -> ChartLine<'static> {
    ChartLine { name, class: "ours", values: values.to_vec() }
}

fn overlap(one: &TextArea, other: &TextArea) -> bool {
    one.left < other.right
        && other.left < one.right
        && one.top < other.bottom
        && other.top < one.bottom
}

fn check_layout(lines: Vec<ChartLine<'static>>) {
    let drawing = draw(&chart(lines));
    for (index, word) in drawing.words.iter().enumerate() {
        let inside = word.left >= 0.0 && word.top >= 0.0;
        assert!(inside && word.right <= WIDTH && word.bottom <= HEIGHT, "{word:?}");
        for other in drawing.words.iter().skip(index + 1) {
            assert!(!overlap(word, other), "{word:?} and {other:?}\n{}", drawing.svg);
        }
    }
}

/// Returns the numbers in the attribute `key` of all SVG elements, in order.
fn coordinates(svg: &str, key: &str) -> Vec<f64> {
    let key = format!(" {key}=\"");
    let values = svg.split(&key).skip(1);
    values.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn chart_text_is_inside_and_does_not_overlap() {
    check_layout(Vec::new());
    check_layout(vec![line("alone", [Some(1e6), None, Some(2.0), Some(0.0)])]);
    let all_alike = ["ferroxfs", "one list of inodes", "one slot for commits", "kernel"];
    for rate in [0.0, 1.0, 119_000.0, 7_200_000.0] {
        check_layout(all_alike.map(|name| line(name, [Some(rate); 4])).into());
    }
    check_layout(vec![
        line("parents by intents", [Some(1.0), Some(2.0), Some(3.9), Some(4.0)]),
        line("lock pointer", [Some(1.1), Some(2.1), Some(3.9), Some(4.1)]),
        line("kernel", [None, None, None, None]),
    ]);
}

#[test]
fn chart_marks_are_between_the_axes() {
    let drawing = draw(&chart(vec![line("a", [Some(10.0), None, Some(0.0), Some(99.9)])]));
    let (across, down) = (coordinates(&drawing.svg, "cx"), coordinates(&drawing.svg, "cy"));
    assert_eq!((across.len(), down.len()), (3, 3));
    assert!(across.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(down.iter().all(|y| (TOP..=BOTTOM).contains(y)));
    assert_eq!(down[1], BOTTOM);
}

#[test]
fn missing_value_breaks_the_line() {
    let drawing = draw(&chart(vec![line("a", [Some(1.0), Some(2.0), None, Some(3.0)])]));
    let path = drawing.svg.split(r#"class="line" d=""#).nth(1).unwrap().split('"').next().unwrap();
    assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1));
}

#[test]
fn axis_ends_at_a_round_number() {
    for (most, last) in [(1.0, "1"), (3.9, "4"), (119_000.0, "150k"), (1_010_000.0, "1.5M")] {
        let scale = AxisScale::up_to(most);
        let ticks: Vec<f64> = scale.ticks().collect();
        assert_eq!(short(*ticks.last().unwrap()), last);
        assert!((3..=6).contains(&ticks.len()), "{ticks:?}");
        assert!(scale.y_of(most) >= TOP);
    }
}

#[test]
fn close_values_are_spread_in_order() {
    let placed = spread(&[50.0, 51.0, 49.0], TEXT_HEIGHT, 0.0, 300.0);
    assert!(placed[2] < placed[0] && placed[0] < placed[1]);
    assert!(placed[0] - placed[2] >= TEXT_HEIGHT);
    let low = spread(&[299.0, 299.0, 299.0], TEXT_HEIGHT, 0.0, 300.0);
    assert_eq!(low, [300.0 - 2.0 * TEXT_HEIGHT, 300.0 - TEXT_HEIGHT, 300.0]);
}
