//! Recipe pages, written as a whole by `wakepath workload`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::{first_difference, pages_are_updated, printed, root, shell};

fn folder() -> PathBuf {
    root().join("docs/reference/recipes")
}

/// Recipe names, without endings.
fn recipe_names() -> Vec<String> {
    let listed = printed(shell("wakepath workload list --recipes --format csv"));
    let files = listed
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').next());
    files
        .map(|file| file.rsplit_once('.').unwrap().0.to_owned())
        .collect()
}

#[test]
fn each_recipe_has_the_page_that_the_command_prints() {
    let names = recipe_names();
    assert!(names.len() >= 18, "{names:?}");
    let mut wanted: Vec<(String, String)> = (names.iter())
        .map(|name| {
            let command = format!("wakepath workload show {name} --format markdown");
            (format!("{name}.md"), command)
        })
        .collect();
    let list = "wakepath workload list --recipes --format markdown".to_owned();
    wanted.push(("README.md".to_owned(), list));
    let mut stale = String::new();
    for (file, command) in &wanted {
        let path = folder().join(file);
        let real = printed(shell(command));
        if pages_are_updated() {
            fs::create_dir_all(folder()).unwrap();
            fs::write(&path, real).unwrap();
            continue;
        }
        let page = fs::read_to_string(&path).unwrap_or_default();
        stale.extend(first_difference(&path, &page, &real));
    }
    assert!(
        stale.is_empty(),
        "{stale}WAKEPATH_UPDATE_DOCS=1 writes them"
    );
    let files = fs::read_dir(folder()).unwrap();
    let there: BTreeSet<String> = files
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let known: BTreeSet<String> = wanted.into_iter().map(|(file, _)| file).collect();
    assert_eq!(there, known, "pages of recipes that are no more");
}
