//! C code of a governor: the file, and the files beside it that it includes.

use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::text::printable_text;

/// The largest file.
const MAX_BYTES: u64 = 1 << 20;
/// Most levels to which a governor's files may include each other.
const DEEPEST: usize = 8;

/// A governor's C code as one text: its quoted includes are inlined.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Name of the governor's file, for messages.
    pub(crate) name: String,
    /// Text of the governor, with quoted includes inlined.
    pub(crate) text: String,
}

impl Source {
    /// Reads a governor's C file, called `name`. In a kernel tree, `linux/teo` means the kernel's
    /// governor teo.
    pub(crate) fn read_with_includes(path: &Path, name: &str) -> Result<Self, String> {
        let path = resolve_in_tree(path)?;
        let folder = real_folder_of_c_file(&path)?;
        let mut text = String::new();
        let name = Path::new(name).file_name().map_or_else(String::new, |n| {
            let name = n.to_string_lossy().into_owned();
            if Path::new(&name).extension().is_some_and(|e| e == "c") {
                name
            } else {
                format!("{name}.c")
            }
        });
        let reader = Reader { folder };
        reader.append_file_with_includes(&path, &name, &mut text, DEEPEST)?;
        if text.trim().is_empty() {
            return Err(format!("{} is empty", path.display()));
        }
        Ok(Self { name, text })
    }

    /// Kernel headers that the governor's code includes, such as `linux/cpuidle.h`.
    pub(crate) fn kernel_headers(&self) -> impl Iterator<Item = &str> {
        let headers = self
            .text
            .lines()
            .filter_map(|line| header_in_include_line(line, '<', '>'));
        headers.filter(|header| is_below_start(header))
    }
}

/// Folder of a kernel tree that has the governors.
const GOVERNORS: &str = "drivers/cpuidle/governors";

/// Kernel tree that a path such as `linux/teo` begins with; `None` if it is none.
pub(crate) fn kernel_tree_of_path(path: &Path) -> Option<&Path> {
    let tree = path.parent()?;
    tree.join(GOVERNORS).is_dir().then_some(tree)
}

/// Path of the governor's file that a path means: itself, or
/// `TREE/drivers/cpuidle/governors/NAME.c` for `TREE/NAME`.
fn resolve_in_tree(path: &Path) -> Result<PathBuf, String> {
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let (tree, name) = match (kernel_tree_of_path(path), path.file_name()) {
        (Some(tree), Some(name)) => (tree, name.to_string_lossy().into_owned()),
        _ => (path, String::new()),
    };
    let folder = tree.join(GOVERNORS);
    let file = folder.join(format!("{name}.c"));
    if file.is_file() {
        return Ok(file);
    }
    if !folder.is_dir() {
        let kind = if path.is_dir() {
            "a folder, and no kernel tree"
        } else {
            "not there"
        };
        return Err(format!(
            "{} is {kind}; name the C file of a governor, or TREE/teo for that of a kernel tree",
            path.display()
        ));
    }
    let files = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut known: Vec<String> = files
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|e| e == "c"))
        .filter_map(|file| {
            Some(format!(
                "{}/{}",
                tree.display(),
                file.file_stem()?.to_str()?
            ))
        })
        .collect();
    known.sort();
    Err(format!(
        "a kernel tree; name a governor of it: {}",
        known.join(", ")
    ))
}

/// Header named by a line such as `#include "gov.h"`, between the given delimiters; `None` for
/// other lines.
fn header_in_include_line(line: &str, open: char, close: char) -> Option<&str> {
    let directive = line.trim_start().strip_prefix('#')?.trim_start();
    let argument = directive.strip_prefix("include")?.trim_start();
    argument
        .strip_prefix(open)?
        .split_once(close)
        .map(|(name, _)| name)
}

/// Whether an included path stays below its starting folder.
fn is_below_start(header: &str) -> bool {
    !header.is_empty()
        && Path::new(header)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

/// Real path of the folder of a governor's file. The file has to be C code by its name: of anything
/// else, not even the first line is shown.
fn real_folder_of_c_file(path: &Path) -> Result<PathBuf, String> {
    let shown = path.display();
    let real = path.canonicalize().map_err(|e| format!("{shown}: {e}"))?;
    if [path, &real]
        .iter()
        .any(|file| file.extension().is_none_or(|e| e != "c"))
    {
        return Err(format!("{shown} is no C file: its name has to end in .c"));
    }
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder
        .unwrap_or(Path::new("."))
        .canonicalize()
        .map_err(|e| format!("{shown}: {e}"))
}

/// Reader of a governor's file and the files that it includes.
struct Reader {
    /// Folder outside of which no file is read.
    folder: PathBuf,
}

impl Reader {
    /// Refuses a file that a link leads out of the governor's folder.
    fn refuse_link_out_of_folder(&self, path: &Path) -> Result<(), String> {
        let shown = path.display();
        let real = path.canonicalize().map_err(|e| format!("{shown}: {e}"))?;
        if real.starts_with(&self.folder) {
            return Ok(());
        }
        Err(format!(
            "{shown} is a link out of its folder, to {}; name that file, or copy it",
            real.display()
        ))
    }

    fn append_file_with_includes(
        &self,
        path: &Path,
        name: &str,
        text: &mut String,
        deeper: usize,
    ) -> Result<(), String> {
        let shown = path.display();
        self.refuse_link_out_of_folder(path)?;
        let metadata = fs::metadata(path).map_err(|e| format!("{shown}: {e}"))?;
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Err(format!("{shown} is no file of at most {MAX_BYTES} bytes"));
        }
        let bytes = fs::read(path).map_err(|e| format!("{shown}: {e}"))?;
        let content = String::from_utf8(bytes).map_err(|_| format!("{shown} is no text"))?;
        for (number, line) in (1..).zip(content.lines()) {
            let outside = [('"', '"'), ('<', '>')]
                .into_iter()
                .filter_map(|(open, close)| header_in_include_line(line, open, close))
                .find(|header| !is_below_start(header));
            if let Some(header) = outside {
                return Err(format!(
                    "{name}:{number} includes {}, which is outside of its folder; copy what it needs to a file beside it",
                    printable_text(header)
                ));
            }
            let Some(header) = header_in_include_line(line, '"', '"') else {
                text.push_str(line);
                text.push('\n');
                continue;
            };
            let file = path.parent().unwrap_or(Path::new("")).join(header);
            if !file.is_file() {
                return Err(format!(
                    "{name}:{number} includes \"{}\", which is not there; copy it from the kernel tree to {}",
                    printable_text(header),
                    file.display()
                ));
            }
            if deeper == 0 {
                return Err(format!(
                    "{name}:{number} includes files that include each other without an end"
                ));
            }
            _ = writeln!(text, "#line 1 \"{header}\"");
            self.append_file_with_includes(&file, header, text, deeper - 1)?;
            _ = writeln!(text, "#line {} \"{name}\"", number + 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_what_was_put_together_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (file, header) = (folder.path().join("a.c"), folder.path().join("gov.h"));
        fs::write(&file, "#include <linux/time.h>\n#include \"gov.h\"\nint a;").unwrap();
        let error = Source::read_with_includes(&file, "x/a.c").unwrap_err();
        assert!(
            error.starts_with("a.c:2 includes \"gov.h\", which is not there"),
            "{error}"
        );
        fs::write(&header, "int b;\n").unwrap();
        let source = Source::read_with_includes(&file, "x/a.c").unwrap();
        assert_eq!(
            source.text,
            "#include <linux/time.h>\n#line 1 \"gov.h\"\nint b;\n#line 3 \"a.c\"\nint a;\n"
        );
        assert_eq!(
            source.kernel_headers().collect::<Vec<_>>(),
            ["linux/time.h"]
        );
        fs::write(&file, &source.text).unwrap();
        assert_eq!(
            Source::read_with_includes(&file, "a.c").unwrap().text,
            source.text
        );
        fs::write(&header, "#include \"gov.h\"").unwrap();
        fs::write(&file, "#include \"gov.h\"").unwrap();
        let error = Source::read_with_includes(&file, "a.c").unwrap_err();
        assert!(error.contains("without an end"), "{error}");
    }

    #[test]
    fn a_governor_of_a_tree_has_a_short_name() {
        let folder = tempfile::tempdir().unwrap();
        let governors = folder.path().join("drivers/cpuidle/governors");
        fs::create_dir_all(&governors).unwrap();
        fs::write(governors.join("teo.c"), "int teo;\n").unwrap();
        let teo = Source::read_with_includes(&folder.path().join("teo"), "linux/teo").unwrap();
        assert_eq!((&*teo.name, &*teo.text), ("teo.c", "int teo;\n"));
        for name in ["", "tea"] {
            let error = Source::read_with_includes(&folder.path().join(name), name).unwrap_err();
            assert!(
                error.contains("a kernel tree") && error.ends_with("/teo"),
                "{error}"
            );
        }
        let error = Source::read_with_includes(Path::new("/nowhere/x.c"), "x.c").unwrap_err();
        assert!(error.contains("/nowhere/x.c is not there"), "{error}");
    }
}
