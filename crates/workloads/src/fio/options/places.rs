//! fio options for the positions of I/Os.

use super::super::error::{LineProblem, OptionVerdict, escape_and_shorten};
use super::super::values::parse_per_direction;
use super::super::values::parse_percent;
use super::super::{Size, ZoneMode};
use super::draft::JobDraft;
use super::extent::parse_percent_or_bytes_unless_zero;
use super::row::OptionRow;
use super::value::{list_names, not_one_of_problem, print_per_direction};

const PLACES: &str =
    "is ignored: where an I/O lies decides nothing but which drive of a RAID0 has it";
const LESS_OF_DEVICE: &str = "leaves less of the device for each further process; \
    the model gives all as much as the first";
const ZONES: &str =
    "zones of a zoned drive are not modelled; remove it to simulate a drive without zones";

const ZONE_MODES: [(&str, ZoneMode); 2] =
    [("none", ZoneMode::None), ("strided", ZoneMode::Strided)];
const OWN_MAP: &str = "another value does without a random map";
const STRIDED: &str = "with `zonemode=strided` only; decide where the job ends";
const WITHOUT_ZBD: &str = "without `zonemode=zbd`";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_job_field(&["offset", "fileoffset"], |job, value| {
        refuse_zone_count(value.text)?;
        job.places.offset = parse_percent_or_bytes_unless_zero(value)?;
        Ok(())
    })
    .with_judge(|draft, _| {
        let job = &draft.job;
        if job.places.offset.is_some() && job.goes_to_devices() && job.size.is_none() {
            // An offset leaves less of the device to cover.
            OptionVerdict::Fine
        } else {
            OptionVerdict::Ignored(PLACES.to_owned())
        }
    })
    .with_printer(|job| job.places.offset.map(|offset| offset.to_string()))
    .with_values("size, or `N%`")
    .with_default("0")
    .with_note("leaves less of a device; else it decides the place only"),
    OptionRow::for_job_field(&["offset_increment"], |job, value| {
        refuse_zone_count(value.text)?;
        job.places.increment = parse_percent_or_bytes_unless_zero(value)?;
        Ok(())
    })
    .with_judge(|draft, _| {
        let job = &draft.job;
        if job.numjobs > 1 && job.goes_to_devices() && !matches!(job.size, Some(Size::Bytes(_))) {
            OptionVerdict::Ignored(LESS_OF_DEVICE.to_owned())
        } else {
            OptionVerdict::Ignored(PLACES.to_owned())
        }
    })
    .with_printer(|job| job.places.increment.map(|increment| increment.to_string()))
    .with_values("size, or `N%`")
    .with_default("0")
    .with_note("all processes have as much of a device as the first"),
    OptionRow::for_job_field(&["offset_align"], |job, value| {
        job.places.align = Some(value.parse_bytes(0)?).filter(|align| *align > 0);
        Ok(())
    })
    .with_printer(|job| job.places.align.map(|align| align.to_string()))
    .with_values("size")
    .with_default("block size")
    .with_note("an `offset` in percent is rounded up to it"),
    OptionRow::for_job_field(&["ba", "blockalign"], |job, value| {
        let given = value.parse_bytes_per_direction(0)?;
        let align = &mut job.places.block_align;
        for (align, given) in align.as_mut_array().into_iter().zip(given.as_array()) {
            if let Some(given) = given {
                *align = (*given > 0).then_some(*given);
            }
        }
        Ok(())
    })
    .with_judge(|_, _| OptionVerdict::Ignored(PLACES.to_owned()))
    .with_printer(|job| print_per_direction(&job.places.block_align))
    .with_values("size")
    .with_default("block size")
    .with_note(OWN_MAP),
    OptionRow::for_job_field(&["random_distribution"], |job, value| {
        check_random_distribution(value.text)?;
        let uneven = value.text.split(':').next() != Some("random");
        job.places.distribution = uneven.then(|| value.text.to_owned());
        Ok(())
    })
    .with_judge(|draft, _| match draft.job.places.distribution {
        Some(_) if draft.job.is_direct() => OptionVerdict::Ignored(PLACES.to_owned()),
        _ => OptionVerdict::Fine,
    })
    .with_printer(|job| job.places.distribution.clone())
    .with_values("`random` `zipf:T` `pareto:H` `normal:D` `zoned:...` `zoned_abs:...`")
    .with_default("`random`")
    .with_note("all others do without a random map"),
    OptionRow::for_job_field(&["percentage_random"], |job, value| {
        let given = parse_per_direction(value.text, parse_percent)?;
        let percentages = &mut job.places.percentage_random;
        for (kept, given) in percentages.as_mut_array().into_iter().zip(given.as_array()) {
            *kept = given.unwrap_or(*kept);
        }
        Ok(())
    })
    .with_judge(|_, _| OptionVerdict::Ignored(PLACES.to_owned()))
    .with_printer_unless_default(|job| {
        let percentages = job.places.percentage_random.map(Some);
        print_per_direction(&percentages).unwrap_or_default()
    })
    .with_values("0 to 100 %, or `read,write,trim`")
    .with_note("decides where the job ends"),
    OptionRow::for_ignored_option(&["softrandommap"], PLACES),
    OptionRow::for_ignored_option(&["rw_sequencer"], PLACES).with_check(|value| match value.text {
        "sequential" | "identical" => Ok(()),
        other => Err(not_one_of_problem(other, &["sequential", "identical"])),
    }),
    OptionRow::for_ignored_option(&["file_append"], PLACES),
    OptionRow::for_judged_option(&["serialize_overlap"], |draft, value| {
        let job = &draft.job;
        let why = if value == "0" {
            return OptionVerdict::Fine;
        } else if job.effective_iodepth() == 1 || !job.rw.writes() {
            "has no effect: no two of its writes are in flight together"
        } else {
            "is ignored: two I/Os in flight hardly ever overlap"
        };
        OptionVerdict::Ignored(why.to_owned())
    })
    .with_note("always: I/Os in flight hardly ever overlap"),
    OptionRow::for_choice(
        &["zonemode"],
        || list_names(&ZONE_MODES),
        |job, value| {
            if value.text == "zbd" {
                return Err(LineProblem::unmodelled(ZONES));
            }
            job.places.zones.mode = value.parse_name(&ZONE_MODES)?;
            Ok(())
        },
    )
    .with_judge(|draft, _| ignore_strided_zone_option(draft))
    .with_printer_unless_default(|job| {
        match job.places.zones.mode {
            ZoneMode::None => "none",
            ZoneMode::Strided => "strided",
        }
        .to_owned()
    })
    .with_note("`strided` needs a `zonesize`"),
    OptionRow::for_job_field(&["zonesize"], |job, value| {
        job.places.zones.size = value.parse_bytes(0)?;
        Ok(())
    })
    .with_judge(|draft, _| ignore_strided_zone_option(draft))
    .with_printer_unless_default(|job| job.places.zones.size.to_string())
    .with_values("size")
    .with_note(STRIDED),
    OptionRow::for_job_field(&["zonerange"], |job, value| {
        job.places.zones.range = value.parse_bytes(0)?;
        Ok(())
    })
    .with_judge(|draft, _| ignore_strided_zone_option(draft))
    .with_printer_unless_default(|job| job.places.zones.range.to_string())
    .with_values("size")
    .with_note(STRIDED),
    OptionRow::for_job_field(&["zoneskip"], |job, value| {
        refuse_zone_count(value.text)?;
        job.places.zones.skip = value.parse_bytes(0)?;
        Ok(())
    })
    .with_judge(|draft, _| ignore_strided_zone_option(draft))
    .with_printer_unless_default(|job| job.places.zones.skip.to_string())
    .with_values("size")
    .with_note(STRIDED),
    OptionRow::for_judged_option(&["zonecapacity"], ignore_unless_zonemode_zbd)
        .with_note(WITHOUT_ZBD),
    OptionRow::for_judged_option(&["read_beyond_wp"], ignore_unless_zonemode_zbd)
        .with_note(WITHOUT_ZBD),
    OptionRow::for_judged_option(&["max_open_zones"], ignore_unless_zonemode_zbd)
        .with_note(WITHOUT_ZBD),
    OptionRow::for_judged_option(&["job_max_open_zones"], ignore_unless_zonemode_zbd)
        .with_note(WITHOUT_ZBD),
    OptionRow::for_judged_option(&["ignore_zone_limits"], ignore_unless_zonemode_zbd)
        .with_note(WITHOUT_ZBD),
    OptionRow::for_judged_option(&["zone_reset_threshold"], ignore_unless_zonemode_zbd)
        .with_note(WITHOUT_ZBD),
    OptionRow::for_judged_option(&["zone_reset_frequency"], ignore_unless_zonemode_zbd)
        .with_note(WITHOUT_ZBD),
];

/// Refuses a number of zones on a zoned drive, such as `5z`: it has no model.
fn refuse_zone_count(text: &str) -> Result<(), LineProblem> {
    let zones = text.strip_suffix(['z', 'Z']);
    match zones.filter(|n| n.bytes().all(|b| b.is_ascii_digit()) && !n.is_empty()) {
        Some(_) => Err(LineProblem::unmodelled(format!(
            "`{}`: {ZONES}",
            escape_and_shorten(text)
        ))),
        None => Ok(()),
    }
}

fn asks_for_zoned_drive(draft: &JobDraft) -> bool {
    draft.value_given_for_option("zonemode") == Some("zbd")
}

/// Judges the options for strided zones, which have gaps in between.
fn ignore_strided_zone_option(draft: &JobDraft) -> OptionVerdict {
    let zones = draft.job.places.zones;
    let why = if asks_for_zoned_drive(draft) {
        // Refused already.
        return OptionVerdict::Fine;
    } else if zones.mode == ZoneMode::None {
        "has no effect without zonemode=strided"
    } else if draft.job.files_per_process() > 1 {
        "has no effect: fio takes zones of one file only"
    } else {
        PLACES
    };
    OptionVerdict::Ignored(why.to_owned())
}

fn ignore_unless_zonemode_zbd(draft: &JobDraft, _: &str) -> OptionVerdict {
    if asks_for_zoned_drive(draft) {
        // Refused already.
        OptionVerdict::Fine
    } else {
        OptionVerdict::Ignored("has no effect without zonemode=zbd".to_owned())
    }
}

/// Checks that fio would accept this text as a distribution of random offsets.
fn check_random_distribution(text: &str) -> Result<(), LineProblem> {
    const KINDS: [&str; 6] = ["random", "zipf", "pareto", "normal", "zoned", "zoned_abs"];
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "random" => Ok(()),
        "zipf" => check_parameter_and_center(rest, "theta", "another number than 1", |n| {
            !(1.0..=1.0).contains(&n)
        }),
        "pareto" => {
            check_parameter_and_center(rest, "the power", "more than 0 and less than 1", |n| {
                n > 0.0 && n < 1.0
            })
        }
        "normal" => check_parameter_and_center(rest, "the deviation", "0 to less than 100", |n| {
            (0.0..100.0).contains(&n)
        }),
        "zoned" | "zoned_abs" => check_zoned_distribution(rest, kind == "zoned"),
        other => Err(not_one_of_problem(other, &KINDS)),
    }
}

/// Checks `parameter:center` of a distribution, where both may be missing.
fn check_parameter_and_center(
    text: &str,
    parameter_in_words: &str,
    range_in_words: &str,
    is_in_range: fn(f64) -> bool,
) -> Result<(), LineProblem> {
    let mut parts = text.split(':');
    let first = parts.next().filter(|part| !part.is_empty());
    if let Some(part) = first
        && !is_in_range(parse_finite_number(part)?)
    {
        let message = format!(
            "{parameter_in_words} is `{}`; expected {range_in_words}",
            escape_and_shorten(part)
        );
        return Err(LineProblem::new(message));
    }
    if let Some(part) = parts.next()
        && !(0.0..=1.0).contains(&parse_finite_number(part)?)
    {
        let message = format!(
            "the center is `{}`; expected 0 to 1",
            escape_and_shorten(part)
        );
        return Err(LineProblem::new(message));
    }
    Ok(())
}

fn parse_finite_number(text: &str) -> Result<f64, LineProblem> {
    let number: Option<f64> = text.parse().ok().filter(|n: &f64| n.is_finite());
    number
        .ok_or_else(|| LineProblem::new(format!("`{}` is not a number", escape_and_shorten(text))))
}

/// Checks `access/size:access/size` of a zoned distribution, where the accesses add up to 100 %.
fn check_zoned_distribution(text: &str, sizes_in_percent: bool) -> Result<(), LineProblem> {
    for list in text.split(',') {
        let (mut access, mut size) = (0_u32, 0_u32);
        for part in list.split(':') {
            let Some((share, whole)) = part.split_once('/') else {
                let message = format!(
                    "`{}` is not a zone; expected access/size",
                    escape_and_shorten(part)
                );
                return Err(LineProblem::new(message));
            };
            access += u32::from(parse_percent(share)?);
            if sizes_in_percent && !whole.is_empty() {
                size += u32::from(parse_percent(whole.trim_end_matches('%'))?);
            }
        }
        if access != 100 {
            let message = format!(
                "the accesses of `{}` add up to {access} %, not 100",
                escape_and_shorten(list)
            );
            return Err(LineProblem::new(message));
        }
        if size > 100 {
            let message = format!(
                "the sizes of `{}` add up to {size} %",
                escape_and_shorten(list)
            );
            return Err(LineProblem::new(message));
        }
    }
    Ok(())
}
