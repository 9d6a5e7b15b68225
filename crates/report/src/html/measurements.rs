//! A page of measured or predicted figures: each experiment as a picture with intervals, and a table with the same numbers.
//!
//! The pictures are SVG in the page itself, so the page has no scripts and loads nothing.

mod drawing;
mod picture;

use minijinja::context;
use serde::Serialize;

use super::number::format_four_significant_digits;
use super::{RenderError, STYLE, content_security_policy, render_template};
use drawing::Drawing;
use picture::describe_interval;

pub use picture::{MeasuredCurve, MeasuredInterval, MeasuredPicture, TradeOffPoint};

const TEMPLATE: &str = include_str!("../../assets/page/measurements.html");
const PICTURE_STYLE: &str = include_str!("../../assets/page/measurements.css");

/// The content of a page of measurements.
#[derive(Clone, Debug, Default)]
pub struct MeasurementPage {
    /// The page's subject, beside the product's name; empty: measurements.
    pub subject: String,
    /// Title of the page.
    pub title: String,
    /// Facts in a line below the title: machine, day, kernel.
    pub facts: Vec<String>,
    /// What a reader should know first.
    pub cautions: Vec<String>,
    /// Whether the figures were simulated, and not measured; the page says so.
    pub is_prediction: bool,
    /// Sentences with the result.
    pub answers: Vec<String>,
    /// Results for a reader's choice.
    pub choices: PageChoices,
    /// Experiments in the order of the page.
    pub sections: Vec<MeasuredSection>,
    /// Figures that nobody measured.
    pub assumed: Vec<AssumedFigure>,
    /// Commands that make the page again.
    pub commands: Vec<String>,
    /// Program and version.
    pub made_by: String,
}

/// Results by a value on a slider, such as a limit. The slider has only values with a result.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageChoices {
    /// The chosen quantity, with the unit.
    pub title: String,
    /// The results from the lowest value to the highest.
    pub choices: Vec<PageChoice>,
    /// Index of the result shown at first.
    pub first: usize,
}

/// A result for a position of the slider.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageChoice {
    /// The value at the slider.
    pub label: String,
    /// Sentences with the result.
    pub answers: Vec<String>,
    /// Column titles of the table; the first names the row.
    pub head: Vec<String>,
    /// Rows, as long as the head.
    pub rows: Vec<Vec<String>>,
}

/// An experiment on the page.
#[derive(Clone, Debug, Default)]
pub struct MeasuredSection {
    /// Heading, with the unit of the picture.
    pub title: String,
    /// Explanation in a sentence or two.
    pub note: String,
    /// The picture; absent: a table alone.
    pub picture: Option<MeasuredPicture>,
    /// Column titles of the table; the first names the row.
    pub head: Vec<String>,
    /// Rows, as long as the head.
    pub rows: Vec<Vec<String>>,
}

/// A figure of a machine that was not measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AssumedFigure {
    /// Key in the machine file.
    pub key: String,
    /// The value.
    pub value: String,
    /// Kind of origin: assumed, declared, source.
    pub origin: String,
    /// Why this value.
    pub why: String,
}

/// Makes a page of measurements.
///
/// # Errors
/// None that the input could cause.
pub fn render_measurements(page: &MeasurementPage) -> Result<String, RenderError> {
    let sections: Vec<minijinja::Value> = page.sections.iter().map(section_content).collect();
    let content = context! {
        policy => content_security_policy(&[]),
        style => style_page(page.choices.choices.len()),
        brand => word_brand(page),
        title => page.title,
        facts => page.facts,
        cautions => page.cautions,
        answers => page.answers,
        is_prediction => page.is_prediction,
        slider => page.choices,
        sections => sections,
        assumed => page.assumed,
        commands => page.commands,
        made_by => page.made_by,
    };
    Ok(render_template(TEMPLATE, content)?)
}

/// The page's subject, as in the first line.
fn word_brand(page: &MeasurementPage) -> &str {
    match page.subject.as_str() {
        "" if page.is_prediction => "predictions",
        "" => "measurements",
        subject => subject,
    }
}

/// The style sheet, with a rule for each position of the slider.
fn style_page(choices: usize) -> String {
    let shown: Vec<String> = (0..choices)
        .map(|index| {
            format!(".slider:has(#choice-{index}:checked) #result-{index} {{ display: block; }}")
        })
        .collect();
    format!("{STYLE}\n{PICTURE_STYLE}\n{}", shown.join("\n"))
}

fn section_content(section: &MeasuredSection) -> minijinja::Value {
    let drawing = section.picture.as_ref().and_then(Drawing::new);
    context! {
        title => section.title,
        note => section.note,
        alt => section.picture.as_ref().map(describe_picture),
        drawing => drawing,
        head => section.head,
        rows => section.rows,
    }
}

/// Most values in an alternative text.
const SPOKEN: usize = 8;

/// An alternative text for readers who do not see the picture.
fn describe_picture(picture: &MeasuredPicture) -> String {
    let parts: Vec<String> = match picture {
        MeasuredPicture::Intervals(rows) => rows
            .iter()
            .map(|row| format!("{}: {}", row.name, describe_interval(row)))
            .collect(),
        MeasuredPicture::Curves { curves, .. } => curves
            .iter()
            .filter_map(|curve| {
                let [first, last] = [curve.points.first()?, curve.points.last()?];
                Some(format!(
                    "{}: {} at {}, {} at {}",
                    curve.name,
                    format_four_significant_digits(first[1]),
                    format_four_significant_digits(first[0]),
                    format_four_significant_digits(last[1]),
                    format_four_significant_digits(last[0])
                ))
            })
            .collect(),
        MeasuredPicture::TradeOff { points, .. } => points
            .iter()
            .map(|point| {
                let [x, y] = [point.x, point.y].map(format_four_significant_digits);
                format!("{}: {y} at {x}", point.name)
            })
            .collect(),
    };
    let more = if parts.len() > SPOKEN {
        "; and more"
    } else {
        ""
    };
    format!(
        "{}{more}. The table below has all numbers.",
        parts[..parts.len().min(SPOKEN)].join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, value: f64) -> MeasuredInterval {
        MeasuredInterval {
            name: name.to_owned(),
            value,
            low: value * 0.9,
            high: value * 1.1,
            reference: Some(value * 2.0),
        }
    }

    fn page() -> MeasurementPage {
        let hostile = "</svg><script>alert(1)</script>";
        MeasurementPage {
            title: hostile.to_owned(),
            answers: vec!["mean within 6 %".to_owned()],
            sections: vec![
                MeasuredSection {
                    title: "Exit latency, us".to_owned(),
                    picture: Some(MeasuredPicture::Intervals(vec![
                        row(hostile, 96.0),
                        row("C1", 0.0),
                        row("odd", f64::NAN),
                    ])),
                    head: vec!["state".to_owned(), "us".to_owned()],
                    rows: vec![vec![hostile.to_owned(), "96".to_owned()]],
                    ..MeasuredSection::default()
                },
                MeasuredSection {
                    picture: Some(MeasuredPicture::Curves {
                        x_title: "pause, ms".to_owned(),
                        curves: vec![MeasuredCurve {
                            name: hostile.to_owned(),
                            points: vec![[0.1, 80.0], [10.0, 80.0], [1000.0, 4000.0]],
                        }],
                    }),
                    ..MeasuredSection::default()
                },
                MeasuredSection {
                    picture: Some(MeasuredPicture::Intervals(Vec::new())),
                    ..MeasuredSection::default()
                },
            ],
            ..MeasurementPage::default()
        }
    }

    #[test]
    fn a_page_has_a_picture_for_each_section_with_values_and_no_script() {
        let html = render_measurements(&page()).unwrap();
        assert_eq!(html.matches("<svg").count(), 2, "{html}");
        assert!(!html.contains("<script"), "{html}");
        assert!(html.contains("&lt;script&gt;"), "{html}");
        assert!(html.contains("default-src 'none'; style-src"));
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
        assert!(html.contains("mean within 6 %"));
        assert_eq!(html, render_measurements(&page()).unwrap());
    }

    #[test]
    fn a_slider_needs_no_script_and_has_a_panel_for_each_value() {
        let hostile = "</style><script>alert(1)</script>";
        let choice = |label: &str| PageChoice {
            label: label.to_owned(),
            answers: vec![format!("best at {hostile}")],
            head: vec!["set".to_owned(), "mW".to_owned()],
            rows: vec![vec![hostile.to_owned(), "78".to_owned()]],
        };
        let point = |name: &str, x: f64, y: f64, is_answer: bool| TradeOffPoint {
            name: name.to_owned(),
            x,
            y,
            is_answer,
        };
        let page = MeasurementPage {
            is_prediction: true,
            choices: PageChoices {
                title: "p99_us below".to_owned(),
                choices: vec![choice("100"), choice("150")],
                first: 1,
            },
            sections: vec![MeasuredSection {
                picture: Some(MeasuredPicture::TradeOff {
                    x_title: "p99, us".to_owned(),
                    y_title: "power, mW".to_owned(),
                    more_is_better: [false, false],
                    points: vec![
                        point(hostile, 100.0, 80.0, true),
                        point("b", 200.0, 60.0, false),
                        point("odd", f64::INFINITY, 60.0, false),
                    ],
                }),
                ..MeasuredSection::default()
            }],
            ..MeasurementPage::default()
        };
        let html = render_measurements(&page).unwrap();
        assert!(!html.contains("<script"), "{html}");
        assert_eq!(html.matches("type=\"radio\"").count(), 2, "{html}");
        assert_eq!(html.matches("class=\"choice\"").count(), 2, "{html}");
        assert!(html.contains("id=\"choice-1\" checked"), "{html}");
        assert_eq!(html.matches("<circle").count(), 2, "{html}");
        assert!(
            html.contains("predictions") && !html.contains("NaN"),
            "{html}"
        );
        let alone = MeasurementPage::default();
        assert!(!render_measurements(&alone).unwrap().contains("radio"));
    }

    #[test]
    fn an_alternative_text_has_the_values() {
        let html = render_measurements(&page()).unwrap();
        assert!(html.contains("C1: 0 (0 to 0)"), "{html}");
        assert!(
            html.contains("80.00 at 0.1000, 4\u{202f}000 at 1\u{202f}000"),
            "{html}"
        );
    }
}
