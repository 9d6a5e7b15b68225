//! `wakepath apply --resets`: what each setting survives, what changes it, and by what that is known.

use serde::Serialize;
use wakepath_settings::list_tools_that_write;
use wakepath_settings::reset::{EventEffect, SURVIVALS, SettingSurvival, SurvivalEvent};

use crate::output::{self, Format, Screen};

/// Follows an effect that was seen in a guest, in the table for people.
const SEEN: &str = "*";

/// A row of the table, for JSON output.
#[derive(Serialize)]
struct SurvivalRow {
    setting: &'static str,
    sleep: &'static str,
    cpu_off_and_on: &'static str,
    plug: &'static str,
    drive_reset: &'static str,
    hot_plug: &'static str,
    /// Known tools that write the setting.
    changed_by: Vec<&'static str>,
    /// Events whose effect was seen in a guest.
    seen_in_guest: Vec<&'static str>,
    /// Files of the kernel's source for the other effects.
    source: &'static str,
}

/// Prints what each setting survives, what changes it, and by what that is known.
pub(super) fn print_what_resets_settings(format: Format, out: &mut Screen) -> anyhow::Result<()> {
    match format {
        Format::Json => {
            let rows: Vec<SurvivalRow> = SURVIVALS.iter().map(survival_row).collect();
            output::write_json(out, &rows)
        }
        Format::Csv => output::write_csv(
            out,
            header(&["changed by", "seen in a guest", "source"]),
            SURVIVALS.iter().map(|survival| {
                let seen = seen_in_guest(survival).join(", ");
                cells(survival, "", [seen, survival.source.to_owned()])
            }),
        ),
        Format::Table => {
            output::write_table(
                out,
                header(&["changed by", "else known by"]),
                SURVIVALS.iter().map(|survival| {
                    let source = survival.source.to_owned();
                    cells(survival, SEEN, [source])
                }),
            )?;
            Ok(writeln!(
                out,
                "\n{SEEN} seen in a Debian guest; all else by the kernel's source, Linux 6.1 to 6.16"
            )?)
        }
    }
}

fn header(last: &[&'static str]) -> Vec<&'static str> {
    let events = SurvivalEvent::ALL.map(SurvivalEvent::title);
    [&["setting"][..], &events, last].concat()
}

/// Cells of a row; `seen` follows each effect that was seen in a guest.
fn cells<const N: usize>(survival: &SettingSurvival, seen: &str, last: [String; N]) -> Vec<String> {
    let effects = SurvivalEvent::ALL.map(|event| {
        let mark = if survival.is_seen_in_guest(event) {
            seen
        } else {
            ""
        };
        format!("{}{mark}", effect_word(survival.effect(event)))
    });
    let tools = list_tools_that_write(survival.setting);
    let changed_by = if tools.is_empty() {
        "-".to_owned()
    } else {
        tools.join(", ")
    };
    let first = [survival.setting.to_owned()].into_iter();
    first
        .chain(effects)
        .chain([changed_by])
        .chain(last)
        .collect()
}

fn seen_in_guest(survival: &SettingSurvival) -> Vec<&'static str> {
    let events = SurvivalEvent::ALL.into_iter();
    events
        .filter(|event| survival.is_seen_in_guest(*event))
        .map(SurvivalEvent::title)
        .collect()
}

fn survival_row(survival: &SettingSurvival) -> SurvivalRow {
    let [sleep, cpu_off_and_on, plug, drive_reset, hot_plug] =
        SurvivalEvent::ALL.map(|event| effect_word(survival.effect(event)));
    SurvivalRow {
        setting: survival.setting,
        sleep,
        cpu_off_and_on,
        plug,
        drive_reset,
        hot_plug,
        changed_by: list_tools_that_write(survival.setting),
        seen_in_guest: seen_in_guest(survival),
        source: survival.source,
    }
}

const fn effect_word(effect: EventEffect) -> &'static str {
    match effect {
        EventEffect::Keeps => "kept",
        EventEffect::MayReset => "may reset",
        EventEffect::Elsewhere => "-",
    }
}
