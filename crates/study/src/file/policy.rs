//! The key `policy` of a study: a list of policy sets, a grid, or tables with names.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use wakepath_policies::PolicySet;
use wakepath_settings::policy_set;

use super::error::StudyError;
use super::text::{MAX_NAME_BYTES, StudyText};

/// Most policy sets that a grid may make.
const MAX_SETS: usize = 1000;
/// Name for a policy set without changes.
const UNCHANGED: &str = "unchanged";

/// An element in a study's `policy`.
#[derive(Clone, Debug)]
pub enum PolicyItem {
    /// A policy set as text, which is its name, too.
    Set(String),
    /// A side of a grid. Every set is combined with every set from each other side.
    Side(Vec<Spanned<String>>),
    /// `[[policy]]`.
    Table(PolicyEntry),
}

/// `[[policy]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyEntry {
    /// Name of the policy in the results; absent: the policy set itself.
    pub name: Option<Spanned<String>>,
    /// The policy set; absent: nothing is changed.
    pub set: Option<Spanned<String>>,
    /// Settings for the measured machine by name, as `wakepath status` lists them.
    #[serde(default)]
    pub settings: BTreeMap<String, Spanned<toml::Value>>,
}

impl<'de> Deserialize<'de> for PolicyItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Item;

        impl<'de> Visitor<'de> for Item {
            type Value = PolicyItem;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a policy set such as \"menu + psd\", a list of them, or a table with name and set",
                )
            }

            fn visit_str<E>(self, text: &str) -> Result<PolicyItem, E> {
                Ok(PolicyItem::Set(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<PolicyItem, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(list)).map(PolicyItem::Side)
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<PolicyItem, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(table)).map(PolicyItem::Table)
            }
        }

        deserializer.deserialize_any(Item)
    }
}

/// A policy set with its name and its place in the study file.
#[derive(Clone, Debug)]
pub struct NamedSet<'a> {
    /// Name of the policy in the results.
    pub name: String,
    /// Place of the policy in the study file; absent if the policy comes from outside the file.
    pub at: Option<Spanned<()>>,
    /// Policies that hold together.
    pub set: PolicySet,
    /// Whether the name is the policy set's own text, and no given name.
    pub is_set: bool,
    /// Settings for the measured machine by name, beyond any policy.
    pub settings: Option<&'a BTreeMap<String, Spanned<toml::Value>>>,
}

impl NamedSet<'_> {
    /// A named policy set without a place in a study file.
    pub fn without_place(name: String, set: PolicySet) -> Self {
        Self {
            name,
            at: None,
            set,
            is_set: false,
            settings: None,
        }
    }

    /// A policy set from outside the study file, such as `--policy`; the set's text is its name.
    pub fn named_by_text_as_written(set: &PolicySet) -> Self {
        Self {
            is_set: true,
            ..Self::without_place(join_as_written(&[&set.text_as_written()]), set.clone())
        }
    }
}

/// Named policy sets in order: those from `policy`, then `also`, then `more` from outside the file. In a grid the last
/// side changes fastest.
///
/// # Errors
/// No policy set, or a grid that is mixed with other elements, empty or too large.
pub fn list_named_sets<'a>(
    items: &'a [Spanned<PolicyItem>],
    also: &'a [Spanned<String>],
    more: Vec<NamedSet<'a>>,
    source: StudyText<'_>,
) -> Result<Vec<NamedSet<'a>>, StudyError> {
    let mut named = Vec::new();
    let mut sides = Vec::new();
    for item in items {
        match item.get_ref() {
            PolicyItem::Side(side) => sides.push((item, side)),
            PolicyItem::Table(entry) => named.push(parse_policy_table(item, entry, source)?),
            PolicyItem::Set(text) => named.push(parse_set_named_by_its_text(item, text, source)?),
        }
    }
    let mut named = match (&sides[..], named.first()) {
        ([], _) => named,
        (sides, None) => parse_grid_into_combinations(sides, source)?,
        (_, Some(other)) => {
            let message = "a list inside `policy` is one side of a grid, so all of it has to be lists: \
                           policy = [[\"menu\", \"teo\"], [\"psd\", \"\"]]";
            return Err(source.policy_error(other.at.as_ref(), &other.name, message));
        }
    };
    for text in also {
        named.push(parse_set_named_by_its_text(text, text.get_ref(), source)?);
    }
    named.extend(more);
    if let Some(long) = named.iter().find(|set| set.name.len() > MAX_NAME_BYTES) {
        let message = format!(
            "as a name this set is longer than {MAX_NAME_BYTES} bytes; give it one: {{ name = \"...\", set = \"...\" }}"
        );
        return Err(source.policy_error(long.at.as_ref(), &long.name, message));
    }
    Ok(named)
}

/// Parses a policy set that stands by itself in the list, with the set's text as name.
fn parse_set_named_by_its_text<'a, T>(
    at: &Spanned<T>,
    text: &str,
    source: StudyText<'_>,
) -> Result<NamedSet<'a>, StudyError> {
    Ok(NamedSet {
        name: join_as_written(&[text]),
        at: Some(Spanned::new(at.span(), ())),
        set: parse_set_at(at, text, source)?,
        is_set: true,
        settings: None,
    })
}

fn parse_policy_table<'a>(
    item: &Spanned<PolicyItem>,
    entry: &'a PolicyEntry,
    source: StudyText<'_>,
) -> Result<NamedSet<'a>, StudyError> {
    let set = match &entry.set {
        Some(text) => parse_set_at(text, text.get_ref(), source)?,
        None => PolicySet::default(),
    };
    let written = entry.set.as_ref().map_or("", |text| text.get_ref());
    let at = entry.set.as_ref().or(entry.name.as_ref());
    Ok(NamedSet {
        name: match &entry.name {
            Some(name) => name.get_ref().clone(),
            None => join_as_written(&[written]),
        },
        at: Some(Spanned::new(at.map_or(item.span(), Spanned::span), ())),
        set,
        is_set: entry.name.is_none(),
        settings: Some(&entry.settings),
    })
}

/// Parses a grid: every combination with a policy set from each side.
fn parse_grid_into_combinations<'a>(
    sides: &[(&Spanned<PolicyItem>, &Vec<Spanned<String>>)],
    source: StudyText<'_>,
) -> Result<Vec<NamedSet<'a>>, StudyError> {
    let mut cells: Vec<(Vec<&str>, Vec<PolicySet>, Spanned<()>)> =
        vec![(Vec::new(), Vec::new(), Spanned::new(0..0, ()))];
    for (at, side) in sides {
        if side.is_empty() {
            return Err(source.error_at_value(at, "an empty side leaves nothing of the grid"));
        }
        if cells.len().saturating_mul(side.len()) > MAX_SETS {
            let message = format!("a grid of more than {MAX_SETS} policy sets");
            return Err(source.error_at_value(at, message));
        }
        let mut wider = Vec::with_capacity(cells.len() * side.len());
        for (names, sets, _) in &cells {
            for text in *side {
                let set = parse_set_at(text, text.get_ref(), source)?;
                let names = names.iter().copied().chain([text.get_ref().as_str()]);
                let sets = sets.iter().cloned().chain([set]);
                let at = Spanned::new(text.span(), ());
                wider.push((names.collect(), sets.collect(), at));
            }
        }
        cells = wider;
    }
    let cells = cells.into_iter().map(|(names, sets, at)| {
        Ok(NamedSet {
            name: join_as_written(&names),
            set: PolicySet::join_sets(sets)
                .map_err(|e| source.error_at_value(&at, e.to_string()))?,
            at: Some(at),
            is_set: true,
            settings: None,
        })
    });
    cells.collect()
}

/// Joins the texts of policy sets as a user would write them, with ` + `.
fn join_as_written(written: &[&str]) -> String {
    let parts: Vec<&str> = written
        .iter()
        .map(|text| text.trim())
        .filter(|text| !matches!(*text, "" | UNCHANGED))
        .collect();
    if parts.is_empty() {
        UNCHANGED.to_owned()
    } else {
        parts.join(" + ")
    }
}

fn parse_set_at<T>(
    at: &Spanned<T>,
    text: &str,
    source: StudyText<'_>,
) -> Result<PolicySet, StudyError> {
    policy_set::parse_with_daemon_config_files(text).map_err(|e| source.error_at_value(at, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        policy: Vec<Spanned<PolicyItem>>,
        #[serde(default)]
        also: Vec<Spanned<String>>,
    }

    /// Names and sets in a study's text.
    fn sets(text: &str) -> Result<Vec<(String, String)>, String> {
        let source = StudyText {
            origin: "x",
            text: Some(text),
        };
        let file: File = toml::from_str(text).map_err(|e| e.message().to_owned())?;
        let sets = list_named_sets(&file.policy, &file.also, Vec::new(), source)
            .map_err(|e| e.to_string())?;
        Ok(sets
            .into_iter()
            .map(|set: NamedSet<'_>| (set.name, set.set.to_string()))
            .collect())
    }

    fn names(text: &str) -> Vec<String> {
        let named = sets(text).unwrap();
        named.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_set_is_its_own_name_as_written() {
        assert_eq!(
            names(
                "policy = ['menu', ' teo + psd ', '', { name = 'x', set = 'teo' }, { set = 'psd' }, {}]"
            ),
            ["menu", "teo + psd", "unchanged", "x", "psd", "unchanged"]
        );
        let named = sets("[[policy]]\nname = 'a'\nset = 'menu@6.1 + psd'").unwrap();
        assert_eq!(named, [("a".to_owned(), "menu@6.1 + psd".to_owned())]);
    }

    #[test]
    fn a_grid_combines_each_with_each() {
        assert_eq!(
            names("policy = [['menu', 'teo'], ['', 'psd'], ['performance']]"),
            [
                "menu + performance",
                "menu + psd + performance",
                "teo + performance",
                "teo + psd + performance"
            ]
        );
        assert_eq!(names("policy = [['', 'psd']]"), ["unchanged", "psd"]);
        assert_eq!(
            sets("policy = [['tuned[balanced]', 'teo@6.12'], ['psd']]").unwrap(),
            ["tuned[balanced] + psd", "teo@6.12 + psd"].map(|set| (set.to_owned(), set.to_owned()))
        );
        assert_eq!(
            names("policy = [['', 'psd']]\nalso = ['teo']"),
            ["unchanged", "psd", "teo"]
        );
    }

    #[test]
    fn what_is_no_policy_has_its_line() {
        let many = vec!["''"; 40].join(",");
        for (text, says) in [
            (
                "policy = [\n'menu',\n'tea']",
                "x:3: no policy is called `tea`",
            ),
            ("policy = [['menu', 'teo'],\n['psd', 'menu']]", "x:2: `menu"),
            ("policy = [['menu'],\n'psd']", "x:2: a list inside"),
            ("policy = [['menu'],\n[]]", "x:2: an empty side"),
            (
                &format!("policy = [[{many}],\n[{many}]]"),
                "x:2: a grid of more than 1000",
            ),
            ("[[policy]]\nname = 'a'\nset = 'menu + menu'", "x:3: `menu"),
            ("policy = [3]", "expected a policy set such as"),
            ("[[policy]]\nidle = 'menu'", "unknown field `idle`"),
        ] {
            let error = sets(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
