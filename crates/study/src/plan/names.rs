//! Names in a study: looking up lists and groups, and making paths for copies.

use std::path::{Path, PathBuf};

use toml::Spanned;

use crate::file::{Names, StudyError, StudyText, unknown_name_message};

/// Path of a copy in the result directory, by name. In names `/` becomes `%2F`, and `%` becomes `%25`.
pub(super) fn path_of_copy_in_results(folder: &str, name: &str, ending: &str) -> String {
    let name = name.replace('%', "%25").replace('/', "%2F");
    format!("{folder}/{name}.{ending}")
}

/// The known names that a list selects. A group such as `spr1` selects all members: `spr1/990pro` and `spr1/sn850x`.
pub(super) fn select_known_names_or_group_members(
    source: StudyText<'_>,
    what: &str,
    names: &Spanned<Names>,
    known: &[&str],
) -> Result<Vec<String>, StudyError> {
    let mut all = Vec::new();
    for name in Names::spanned_names(names, source)? {
        for member in select_name_or_group_members(source, what, &name, known)? {
            if !all.contains(&member) {
                all.push(member);
            }
        }
    }
    Ok(all)
}

pub(super) fn select_name_or_group_members(
    source: StudyText<'_>,
    what: &str,
    name: &Spanned<String>,
    known: &[&str],
) -> Result<Vec<String>, StudyError> {
    let group = format!("{}/", name.get_ref());
    let members: Vec<String> = known
        .iter()
        .filter(|k| k.starts_with(&group))
        .map(|k| (*k).to_owned())
        .collect();
    if members.is_empty() {
        let at = find_name(source, what, name, known)?;
        return Ok(vec![known[at].to_owned()]);
    }
    Ok(members)
}

/// Index of a name among the known names; an unknown name is an error with the nearest.
pub(super) fn find_name(
    source: StudyText<'_>,
    what: &str,
    name: &Spanned<String>,
    known: &[&str],
) -> Result<usize, StudyError> {
    let wanted = name.get_ref();
    known
        .iter()
        .position(|k| k == wanted)
        .ok_or_else(|| source.error_at_value(name, unknown_name_message(what, wanted, known)))
}

/// A path that counts from the study's folder, unless absolute.
pub(super) fn path_in_folder(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}
