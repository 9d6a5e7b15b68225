//! Which files of a crate name which other files. Every path of the source is read, and followed through re-exports to
//! the file that defines the item.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Segments of a path, from the crate's root.
type ModulePath = Vec<String>;

/// Re-exports of re-exports that are followed: more are a circle of `use`.
const REEXPORTS: usize = 16;

/// The files of a crate, by module.
#[derive(Default)]
pub(super) struct CrateSource {
    files: BTreeMap<ModulePath, SourceFile>,
}

/// A file without its tests.
#[derive(Default)]
struct SourceFile {
    items: BTreeSet<String>,
    /// Names that `use` binds, with their paths.
    bound: BTreeMap<String, ModulePath>,
    /// Modules imported by `use path::*`.
    globs: Vec<ModulePath>,
    paths: BTreeSet<ModulePath>,
    lines: usize,
}

impl CrateSource {
    /// Reads the files of a `src` folder.
    pub(super) fn read(src: &Path) -> Self {
        let mut source = Self::default();
        source.read_folder(src, &[]);
        source
    }

    fn read_folder(&mut self, folder: &Path, module: &[String]) {
        let entries = fs::read_dir(folder).unwrap();
        let paths: BTreeSet<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        for path in paths {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let inside = [module, slice::from_ref(&name)].concat();
            if path.is_dir() {
                self.read_folder(&path, &inside);
            } else if path.extension().is_some_and(|ending| ending == "rs") && name != "tests" {
                let own = match name.as_str() {
                    "lib" | "main" | "mod" => module.to_vec(),
                    _ => inside,
                };
                let text = fs::read_to_string(&path).unwrap();
                let file = SourceFile::parse(&text, &own);
                self.files.insert(own, file);
            }
        }
    }

    /// Modules whose files have more lines, with their lines.
    pub(super) fn files_longer_than(&self, lines: usize) -> BTreeMap<String, usize> {
        let long = self.files.iter().filter(|(_, file)| file.lines > lines);
        long.map(|(module, file)| (module.join("::"), file.lines))
            .collect()
    }

    /// Groups of files that reach each other by what they name. The crate's root is "".
    pub(super) fn circles(&self) -> BTreeSet<BTreeSet<String>> {
        let arrows = self.arrows();
        let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> = arrows
            .keys()
            .map(|file| (*file, reachable_files(file, &arrows)))
            .collect();
        let circles = reached.iter().map(|(file, others)| {
            let circle = others.iter().filter(|other| reached[*other].contains(file));
            circle.map(|other| other.join("::")).collect()
        });
        circles
            .filter(|circle: &BTreeSet<String>| circle.len() > 1)
            .collect()
    }

    /// The other files that each file names.
    fn arrows(&self) -> BTreeMap<&ModulePath, BTreeSet<&ModulePath>> {
        let arrows = self.files.iter().map(|(module, file)| {
            let named = file.paths.iter();
            let files = named.filter_map(|path| self.defining_file(path, REEXPORTS));
            (module, files.filter(|file| *file != module).collect())
        });
        arrows.collect()
    }

    /// The file that defines what a path names; `None` for re-exports of other crates.
    fn defining_file(&self, path: &[String], reexports: usize) -> Option<&ModulePath> {
        let modules = (0..=path.len()).rev();
        let (module, file) = modules
            .map(|end| self.files.get_key_value(&path[..end]))
            .find_map(|known| known)?;
        let [name, inside @ ..] = &path[module.len()..] else {
            return Some(module);
        };
        let unknown = (reexports == REEXPORTS).then_some(module);
        let reexports = reexports.checked_sub(1)?;
        if file.items.contains(name) {
            return Some(module);
        }
        if let Some(target) = file.bound.get(name) {
            return self.defining_file(&[target, inside].concat(), reexports);
        }
        let through_globs = file.globs.iter().find_map(|glob| {
            let target = [glob, &path[module.len()..]].concat();
            let found = self.defining_file(&target, reexports)?;
            self.files[found].items.contains(name).then_some(found)
        });
        through_globs.or(unknown)
    }
}

/// The files that a file names, and in turn the files named there.
fn reachable_files<'a>(
    file: &'a ModulePath,
    arrows: &BTreeMap<&'a ModulePath, BTreeSet<&'a ModulePath>>,
) -> BTreeSet<&'a ModulePath> {
    let mut found = BTreeSet::new();
    let mut next = vec![file];
    while let Some(file) = next.pop() {
        next.extend(arrows[file].iter().filter(|named| found.insert(**named)));
    }
    found
}

impl SourceFile {
    fn parse(text: &str, own: &[String]) -> Self {
        let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
        let mut file = Self {
            lines: code.lines().count(),
            ..Self::default()
        };
        file.add_code(text.parse().unwrap(), own);
        file
    }

    /// Adds the items and paths of code in the module `own`.
    fn add_code(&mut self, code: TokenStream, own: &[String]) {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at = match word(&tokens[at..]).as_deref() {
                _ if is_test_only(&tokens[at..]) => at + 2 + item_length(&tokens[at + 2..]),
                Some("use") => {
                    let end = at + use_length(&tokens[at..]);
                    self.add_use(&tokens[at + 1..end], own, Vec::new());
                    end
                }
                Some(
                    "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static"
                    | "macro_rules",
                ) => {
                    self.items.extend(word(&tokens[at + 1..]));
                    at + 1
                }
                Some("pub") if is_restriction(tokens.get(at + 1)) => at + 2,
                Some("mod") => at + self.add_inline_module(&tokens[at..], own),
                Some(_) => at + self.add_path(&tokens[at..], own),
                // A lifetime: `'static` begins no item.
                None if is_sign(&tokens[at], '\'') => at + 2,
                None => {
                    if let TokenTree::Group(group) = &tokens[at] {
                        self.add_code(group.stream(), own);
                    }
                    at + 1
                }
            };
        }
    }

    /// Adds the code of `mod name { ... }` at the start of the tokens, and returns how many tokens that took.
    fn add_inline_module(&mut self, tokens: &[TokenTree], own: &[String]) -> usize {
        let (Some(name), Some(TokenTree::Group(body))) = (word(&tokens[1..]), tokens.get(2)) else {
            return 1;
        };
        self.add_code(body.stream(), &[own, &[name]].concat());
        3
    }

    /// Adds the path at the start of the tokens, and returns how many tokens it has.
    fn add_path(&mut self, tokens: &[TokenTree], own: &[String]) -> usize {
        let mut path: ModulePath = word(tokens).into_iter().collect();
        let mut end = 1;
        while is_path_separator(&tokens[end..]) {
            end += 2;
            let Some(name) = word(&tokens[end..]) else {
                // A macro's `$name` stands for an unknown segment.
                if tokens.get(end).is_some_and(|token| is_sign(token, '$')) {
                    return end;
                }
                break;
            };
            path.push(name);
            end += 1;
        }
        if path.len() > 1 {
            self.paths.extend(path_from_root(&path, own));
        }
        end
    }

    /// Adds the paths of a tree of `use` behind a prefix.
    fn add_use(&mut self, tree: &[TokenTree], own: &[String], mut prefix: ModulePath) {
        let mut alias = None;
        for (at, token) in tree.iter().enumerate() {
            match token {
                TokenTree::Group(group) => {
                    let branches: Vec<TokenTree> = group.stream().into_iter().collect();
                    // A comma at the end makes an empty branch.
                    let branches = branches.split(|token| is_sign(token, ','));
                    for branch in branches.filter(|branch| !branch.is_empty()) {
                        self.add_use(branch, own, prefix.clone());
                    }
                    return;
                }
                TokenTree::Ident(name) if name == "as" => {
                    alias = word(&tree[at + 1..]);
                    break;
                }
                TokenTree::Ident(name) => prefix.push(name.to_string()),
                sign if is_sign(sign, '*') => {
                    if let Some(path) = path_from_root(&prefix, own) {
                        self.paths.insert(path.clone());
                        self.globs.push(path);
                    }
                    return;
                }
                _ => {}
            }
        }
        if prefix.len() > 1 && prefix.last().is_some_and(|last| last == "self") {
            prefix.pop();
        }
        let name = alias.or_else(|| prefix.last().cloned());
        if let (Some(name), Some(path)) = (name, path_from_root(&prefix, own)) {
            self.paths.insert(path.clone());
            self.bound.insert(name, path);
        }
    }
}

/// A path as written in the module `own`, from the crate's root; `None` without a segment.
fn path_from_root(path: &[String], own: &[String]) -> Option<ModulePath> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([own, rest].concat()),
        "super" => {
            let (_, parent) = own.split_last()?;
            match rest.first() {
                Some(next) if next == "super" => path_from_root(rest, parent),
                _ => Some([parent, rest].concat()),
            }
        }
        _ => Some([own, path].concat()),
    }
}

/// The word that tokens begin with.
fn word(tokens: &[TokenTree]) -> Option<String> {
    match tokens.first()? {
        TokenTree::Ident(name) => Some(name.to_string()),
        _ => None,
    }
}

fn is_sign(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punctuation) if punctuation.as_char() == sign)
}

fn is_path_separator(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [first, second, ..] if is_sign(first, ':') && is_sign(second, ':'))
}

/// Whether tokens begin with `#[cfg(test)]`.
fn is_test_only(tokens: &[TokenTree]) -> bool {
    match tokens {
        [sign, TokenTree::Group(attribute), ..] if is_sign(sign, '#') => {
            attribute.stream().to_string().replace(' ', "") == "cfg(test)"
        }
        _ => false,
    }
}

/// Whether a token is the `(in path)` behind `pub`, which imports nothing.
fn is_restriction(token: Option<&TokenTree>) -> bool {
    match token {
        Some(TokenTree::Group(group)) => group.stream().to_string().starts_with("in "),
        _ => false,
    }
}

/// Tokens of a `use`, with its semicolon.
fn use_length(tokens: &[TokenTree]) -> usize {
    let end = tokens.iter().position(|token| is_sign(token, ';'));
    end.map_or(tokens.len(), |end| end + 1)
}

/// Tokens of an item, with its semicolon or its body.
fn item_length(tokens: &[TokenTree]) -> usize {
    let first_words = tokens.iter().filter_map(|token| match token {
        TokenTree::Ident(name) => Some(name.to_string()),
        _ => None,
    });
    if first_words.take(2).any(|word| word == "use") {
        return use_length(tokens);
    }
    let end = tokens.iter().position(|token| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        other => is_sign(other, ';'),
    });
    end.map_or(tokens.len(), |end| end + 1)
}

#[test]
fn circles_are_found_through_every_kind_of_path() {
    let crate_with = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(module, text)| {
            let module: ModulePath = module.split_terminator("::").map(str::to_owned).collect();
            (module.clone(), SourceFile::parse(text, &module))
        });
        CrateSource {
            files: files.collect(),
        }
        .circles()
    };
    let in_circle = |names: &[&str]| {
        let circle = names.iter().map(|name| (*name).to_owned()).collect();
        BTreeSet::from([circle])
    };
    let a = ("a", "pub fn one() { crate::b::two() }");
    let no_import = (
        "b",
        "pub(in crate::a) fn two() {} use super::{c,}; pub fn x() {}",
    );
    let c = ("c", "");
    let root = ("", "pub use b::x;");
    assert_eq!(crate_with(&[root, a, no_import, c]), BTreeSet::new());
    assert_eq!(crate_with(&[a, ("b", "pub fn two() {}")]), BTreeSet::new());
    for text in [
        "use crate::a::one;",
        "use crate::{a::{self, one}, leaf};",
        "use super::a;",
        "fn two() { super::a::one() }",
        "fn two() { println!(\"{}\", crate::a::one()) }",
        "mod inner { use super::super::a::*; }",
        "use crate::{external, one};",
        "use crate::glob::one as uno;",
    ] {
        let root = ("", "mod a; pub use a::one; pub use other_crate::external;");
        let glob = ("glob", "pub use super::a::*;");
        let circles = crate_with(&[root, glob, a, ("b", text), ("leaf", "")]);
        assert_eq!(circles, in_circle(&["a", "b"]), "{text}");
    }
    let tests = ("b", "#[cfg(test)] mod tests { use crate::a::one; }");
    assert_eq!(crate_with(&[a, tests]), BTreeSet::new());
    let lifetime = ("", "pub use c::X; pub fn x() -> &'static X { a::one() }");
    let below = ("a", "use crate::X; pub fn one() {}");
    assert_eq!(
        crate_with(&[lifetime, below, ("c", "pub struct X;")]),
        BTreeSet::new()
    );
    let comment = (
        "b",
        "// crate::a::one\nconst TEXT: &str = \"crate::a::one\";",
    );
    assert_eq!(crate_with(&[a, comment]), BTreeSet::new());
}
