//! A value in a study file that is a name, or a list of names.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::error::StudyError;
use super::text::StudyText;

/// A value in a study file: a name, or a list of names.
#[derive(Clone, Debug)]
pub enum Names {
    /// `"spr1"`.
    One(String),
    /// `["spr1", "gnr0"]`.
    Several(Vec<Spanned<String>>),
}

impl Names {
    /// Every name with its place in the study file.
    ///
    /// # Errors
    /// The list is empty.
    pub fn spanned_names(
        names: &Spanned<Self>,
        source: StudyText<'_>,
    ) -> Result<Vec<Spanned<String>>, StudyError> {
        match names.get_ref() {
            Self::One(name) => Ok(vec![Spanned::new(names.span(), name.clone())]),
            Self::Several(list) if list.is_empty() => {
                Err(source.error_at_value(names, "an empty list leaves nothing to run"))
            }
            Self::Several(list) => Ok(list.clone()),
        }
    }

    /// Whether the names include `name`, by itself or as a group's member: `reads` includes `reads/bs=4k`.
    pub fn include_name_or_its_group(&self, name: &str) -> bool {
        match self {
            Self::One(listed) => is_name_or_group_of_name(listed, name),
            Self::Several(list) => list
                .iter()
                .any(|listed| is_name_or_group_of_name(listed.get_ref(), name)),
        }
    }

    /// Every name in the list, without its place.
    pub fn listed_names(&self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name.clone()],
            Self::Several(list) => list.iter().map(|name| name.get_ref().clone()).collect(),
        }
    }
}

/// Whether a listed name is `name` itself, or the group of `name`.
fn is_name_or_group_of_name(listed: &str, name: &str) -> bool {
    let rest = name.strip_prefix(listed);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Item;

        impl<'de> Visitor<'de> for Item {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a list of names")
            }

            fn visit_str<E>(self, text: &str) -> Result<Names, E> {
                Ok(Names::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Names, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(list)).map(Names::Several)
            }
        }

        deserializer.deserialize_any(Item)
    }
}
