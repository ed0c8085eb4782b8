//! The same samples make the same picture; any names are accepted.

use super::*;
use proptest::prelude::*;

fn frame(name: &str, module: &str) -> Frame {
    Frame {
        name: name.to_owned(),
        module: module.to_owned(),
    }
}

fn sample(lane: u32, stack: &[u32]) -> Sample {
    Sample {
        at_ns: 0,
        lane,
        cpu: 0,
        stack: stack.to_vec(),
    }
}

/// Relative luminance (WCAG 2.1).
fn luminance(colour: &str) -> f64 {
    let part = |from: usize| {
        let value = u8::from_str_radix(&colour[from..from + 2], 16).expect("hex");
        let value = f64::from(value) / 255.0;
        match value <= 0.04045 {
            true => value / 12.92,
            false => ((value + 0.055) / 1.055).powf(2.4),
        }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn boxes_and_their_text_can_be_told_from_what_is_behind_them() {
    for first in [0, 2] {
        assert!(contrast(PAPER[first], PAPER[first + 1]) >= 7.0);
        for (kind, _, _, colours) in KINDS {
            let (fill, text) = (colours[first], colours[first + 1]);
            assert!(contrast(fill, PAPER[first]) >= 3.0, "{kind:?} on {}", PAPER[first]);
            assert!(contrast(fill, text) >= 4.5, "text on {kind:?}");
        }
    }
}

#[test]
fn folded_stacks_are_counted_and_in_order() {
    let frames = [
        frame("run", "mpps"),
        frame("a;b", "mpps"),
        frame("0x12", "libx.so.1"),
        frame("0x13", "libx.so.1"),
    ];
    let samples = [
        sample(1, &[0, 1]),
        sample(0, &[0]),
        sample(1, &[0, 1]),
        sample(0, &[0, 2]),
        sample(0, &[0, 3]),
    ];
    let want = "lane 0;run 1\nlane 0;run;libx.so.1 (no name) 2\nlane 1;run;a:b 2\n";
    assert_eq!(folded(&samples, &frames), want);
}

#[test]
fn functions_of_one_name_in_two_files_are_two_boxes_and_one_stack() {
    let frames = [frame("main", "mpps"), frame("main", "libx.so.1")];
    let samples = [sample(0, &[0]), sample(0, &[1])];
    assert_eq!(folded(&samples, &frames), "lane 0;main 2\n");
    let svg = flame_svg(&samples, &frames, &Caption::default());
    assert!(
        svg.contains("main in mpps: 1 samples") && svg.contains("main in libx.so.1: 1 samples"),
        "{svg}"
    );
}

#[test]
fn a_name_is_cut_to_what_fits_and_keeps_its_end() {
    let name = "mpps_engine::workload::forward::way::Way<mpps_io::null::Queue>::serve";
    assert_eq!(cut(name, 100).as_deref(), Some(name));
    assert_eq!(cut(name, 12).as_deref(), Some("Way::serve"));
    assert_eq!(cut(name, 4).as_deref(), Some("ser…"));
    assert_eq!(cut(name, 3), None);
    assert_eq!(cut("<A as B>::c", 6).as_deref(), Some("c"));
}

#[test]
fn a_picture_without_samples_says_so() {
    let svg = flame_svg(&[], &[], &Caption::default());
    assert!(svg.contains("no samples") && svg.ends_with("</svg>\n"));
}

fn some_frames() -> impl Strategy<Value = Vec<Frame>> {
    let module = prop_oneof![
        Just("[kernel]"),
        Just("mpps"),
        Just("librte_x.so.23"),
        Just("libc.so.6")
    ];
    prop::collection::vec(("[a-z<&\"\u{202e}\n:;]{1,40}", module), 1..8)
        .prop_map(|all| all.iter().map(|(name, module)| frame(name, module)).collect())
}

fn some_samples() -> impl Strategy<Value = Vec<Sample>> {
    let one = (0_u32..3, prop::collection::vec(0_u32..10, 0..12));
    prop::collection::vec(one.prop_map(|(lane, stack)| sample(lane, &stack)), 0..60)
}

/// The numbers of an attribute of all rectangles of classes, in order.
fn numbers(svg: &str, attribute: &str) -> Vec<f64> {
    let boxes = svg.lines().filter(|line| line.starts_with("<g>"));
    let value = |line: &str| {
        let (_, rest) = line.split_once("<rect")?;
        let (_, rest) = rest.split_once(&format!(" {attribute}=\""))?;
        rest.split_once('"')?.0.parse().ok()
    };
    boxes.filter_map(value).collect()
}

proptest! {
    #[test]
    fn all_samples_are_in_the_folded_text(samples in some_samples(), frames in some_frames()) {
        let text = folded(&samples, &frames);
        let counts = text.lines().map(|line| line.rsplit_once(' ').expect("a count").1.parse::<u64>());
        prop_assert_eq!(counts.map(|count| count.expect("a number")).sum::<u64>(), samples.len() as u64);
    }

    #[test]
    fn boxes_lie_within_the_picture_and_as_wide_as_their_samples(
        samples in some_samples(), frames in some_frames(),
    ) {
        let svg = flame_svg(&samples, &frames, &Caption::default());
        let (x, width) = (numbers(&svg, "x"), numbers(&svg, "width"));
        let (y, height) = (numbers(&svg, "y"), svg.split("height=\"").nth(1).expect("a height"));
        let height: f64 = height.split('"').next().expect("a number").parse().expect("a number");
        for ((x, width), y) in x.iter().zip(&width).zip(&y) {
            prop_assert!(*x >= MARGIN - 0.1 && x + width <= WIDTH - MARGIN + 0.1, "{} {}", x, width);
            prop_assert!(*y > 0.0 && y + ROW <= height, "{} of {}", y, height);
        }
        let lanes: std::collections::BTreeSet<u32> = samples.iter().map(|sample| sample.lane).collect();
        let lowest = y.iter().copied().fold(0.0, f64::max);
        let bottom = width.iter().zip(&y).filter(|(_, y)| **y == lowest).map(|(width, _)| width + 1.0);
        if !samples.is_empty() {
            let sum: f64 = bottom.sum();
            prop_assert!((sum - (WIDTH - 2.0 * MARGIN)).abs() < 0.1 * lanes.len() as f64, "{}", sum);
        }
    }

    #[test]
    fn the_order_of_samples_makes_no_difference(
        mut samples in some_samples(), frames in some_frames(), at in any::<prop::sample::Index>(),
    ) {
        let caption = Caption::default();
        let (svg, text) = (flame_svg(&samples, &frames, &caption), folded(&samples, &frames));
        if !samples.is_empty() {
            let middle = at.index(samples.len());
            samples.rotate_left(middle);
        }
        prop_assert_eq!(flame_svg(&samples, &frames, &caption), svg);
        prop_assert_eq!(folded(&samples, &frames), text);
    }

    #[test]
    fn the_file_is_well_formed_whatever_names_are(samples in some_samples(), frames in some_frames()) {
        let caption = Caption { title: "<&\u{7}".to_owned(), notes: vec!["\"".to_owned()] };
        let svg = flame_svg(&samples, &frames, &caption);
        let opened = svg.matches("<g>").count();
        prop_assert_eq!(opened, svg.matches("</g>").count());
        // Every ampersand begins a reference, and every angle bracket a tag.
        for (place, _) in svg.match_indices('&') {
            let known = ["&amp;", "&lt;", "&gt;", "&quot;"];
            prop_assert!(known.iter().any(|reference| svg[place..].starts_with(reference)));
        }
        for (place, _) in svg.match_indices('<') {
            let tags = [
                "<svg ", "</svg>", "<style>", "</style>", "<title>", "</title>", "<rect ", "<text ", "</text>",
                "<g>", "</g>",
            ];
            prop_assert!(tags.iter().any(|tag| svg[place..].starts_with(tag)), "{}", &svg[place..]);
        }
        prop_assert!(!svg.chars().any(|c| c.is_control() && c != '\n'));
    }
}
