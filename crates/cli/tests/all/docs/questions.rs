//! What readers ask (`docs/questions.toml`): each question has a page and a heading that are there. `crates/report/tests/all/site.rs` types them
//! into the search of the site.

use std::fs;

use super::{heading_anchor, page_anchors, root};

#[test]
fn each_question_has_a_page_with_the_heading_that_answers_it() {
    let text = fs::read_to_string(root().join("docs/questions.toml")).unwrap();
    let questions: toml::Table = toml::from_str(&text).unwrap();
    let questions = questions["question"].as_array().unwrap();
    assert!(questions.len() >= 80, "{} questions", questions.len());
    let mut wrong = Vec::new();
    for question in questions {
        let key = |name: &str| question[name].as_str().unwrap();
        let answer = heading_anchor(key("heading"));
        let page = fs::read_to_string(root().join("docs").join(key("page")));
        if !page.is_ok_and(|page| page_anchors(&page).contains(&answer)) {
            wrong.push(format!(
                "{}: {} in {}",
                key("ask"),
                key("heading"),
                key("page")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
