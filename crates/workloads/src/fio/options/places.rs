//! fio options for the positions of I/Os.

use super::super::error::{Problem, Verdict, escape_and_shorten};
use super::super::values::parse_per_direction;
use super::super::values::parse_percent;
use super::super::{Places, Size, ZoneMode};
use super::draft::Draft;
use super::extent::parse_share_or_bytes;
use super::row::Row;
use super::value::{not_one_of_problem, print_per_direction};

const PLACES: &str =
    "is ignored: where an I/O lies decides nothing but which drive of a RAID0 has it";
const ZONES: &str =
    "zones of a zoned drive are not modelled; remove it to simulate a drive without zones";

pub(super) const ROWS: &[Row] = &[
    Row::for_field(&["offset", "fileoffset"], |job, value| {
        refuse_zone_count(value.text)?;
        job.places.offset = parse_share_or_bytes(value)?;
        Ok(())
    })
    .with_judge(|draft, _| {
        let job = &draft.job;
        if job.places.offset.is_some() && job.goes_to_devices() && job.size.is_none() {
            // An offset leaves less of the device to cover.
            Verdict::Fine
        } else {
            Verdict::Ignored(PLACES.to_owned())
        }
    })
    .with_printer(|job| job.places.offset.map(|offset| offset.to_string())),
    Row::for_field(&["offset_increment"], |job, value| {
        refuse_zone_count(value.text)?;
        job.places.increment = parse_share_or_bytes(value)?;
        Ok(())
    })
    .with_judge(|draft, _| {
        let job = &draft.job;
        if job.numjobs > 1 && job.goes_to_devices() && !matches!(job.size, Some(Size::Bytes(_))) {
            Verdict::Ignored(
                "leaves less of the device for each further process; the model gives all as much as the first"
                    .to_owned(),
            )
        } else {
            Verdict::Ignored(PLACES.to_owned())
        }
    })
    .with_printer(|job| job.places.increment.map(|increment| increment.to_string())),
    Row::for_field(&["offset_align"], |job, value| {
        job.places.align = Some(value.parse_bytes(0)?).filter(|align| *align > 0);
        Ok(())
    })
    .with_printer(|job| job.places.align.map(|align| align.to_string())),
    Row::for_field(&["ba", "blockalign"], |job, value| {
        let given = value.parse_bytes_per_direction(0)?;
        let align = &mut job.places.block_align;
        for (align, given) in align.as_mut_array().into_iter().zip(given.as_array()) {
            if let Some(given) = given {
                *align = (*given > 0).then_some(*given);
            }
        }
        Ok(())
    })
    .with_judge(|_, _| Verdict::Ignored(PLACES.to_owned()))
    .with_printer(|job| print_per_direction(&job.places.block_align)),
    Row::for_field(&["random_distribution"], |job, value| {
        check_distribution(value.text)?;
        let uneven = value.text.split(':').next() != Some("random");
        job.places.distribution = uneven.then(|| value.text.to_owned());
        Ok(())
    })
    .with_judge(|draft, _| match draft.job.places.distribution {
        Some(_) => Verdict::Ignored(PLACES.to_owned()),
        None => Verdict::Fine,
    })
    .with_printer(|job| job.places.distribution.clone()),
    Row::for_field(&["percentage_random"], |job, value| {
        let given = parse_per_direction(value.text, parse_percent)?;
        let percentages = &mut job.places.percentage_random;
        for (kept, given) in percentages.as_mut_array().into_iter().zip(given.as_array()) {
            *kept = given.unwrap_or(*kept);
        }
        Ok(())
    })
    .with_judge(|_, _| Verdict::Ignored(PLACES.to_owned()))
    .with_printer(|job| {
        let percentages = job.places.percentage_random;
        (percentages != Places::default().percentage_random)
            .then(|| print_per_direction(&percentages.map(Some)).unwrap_or_default())
    }),
    Row::for_ignored_option(&["softrandommap"], PLACES),
    Row::for_ignored_option(&["rw_sequencer"], PLACES).with_check(|value| match value.text {
        "sequential" | "identical" => Ok(()),
        other => Err(not_one_of_problem(other, &["sequential", "identical"])),
    }),
    Row::for_ignored_option(&["file_append"], PLACES),
    Row::for_judged_option(&["serialize_overlap"], |draft, value| {
        let job = &draft.job;
        let why = if value == "0" {
            return Verdict::Fine;
        } else if job.effective_iodepth() == 1 || !job.rw.writes() {
            "has no effect: no two of its writes are in flight together"
        } else {
            "is ignored: two I/Os in flight hardly ever overlap"
        };
        Verdict::Ignored(why.to_owned())
    }),
    Row::for_field(&["zonemode"], |job, value| {
        job.places.zones.mode = match value.text {
            "none" => ZoneMode::None,
            "strided" => ZoneMode::Strided,
            "zbd" => return Err(Problem::unmodelled(ZONES)),
            other => return Err(not_one_of_problem(other, &["none", "strided", "zbd"])),
        };
        Ok(())
    })
    .with_judge(|draft, _| judge_strided_zones(draft))
    .with_printer(|job| match job.places.zones.mode {
        ZoneMode::None => None,
        ZoneMode::Strided => Some("strided".to_owned()),
    }),
    Row::for_field(&["zonesize"], |job, value| {
        job.places.zones.size = value.parse_bytes(0)?;
        Ok(())
    })
    .with_judge(|draft, _| judge_strided_zones(draft))
    .with_printer(|job| print_unless_zero(job.places.zones.size)),
    Row::for_field(&["zonerange"], |job, value| {
        job.places.zones.range = value.parse_bytes(0)?;
        Ok(())
    })
    .with_judge(|draft, _| judge_strided_zones(draft))
    .with_printer(|job| print_unless_zero(job.places.zones.range)),
    Row::for_field(&["zoneskip"], |job, value| {
        refuse_zone_count(value.text)?;
        job.places.zones.skip = value.parse_bytes(0)?;
        Ok(())
    })
    .with_judge(|draft, _| judge_strided_zones(draft))
    .with_printer(|job| print_unless_zero(job.places.zones.skip)),
    Row::for_judged_option(&["zonecapacity"], judge_option_of_zoned_drive),
    Row::for_judged_option(&["read_beyond_wp"], judge_option_of_zoned_drive),
    Row::for_judged_option(&["max_open_zones"], judge_option_of_zoned_drive),
    Row::for_judged_option(&["job_max_open_zones"], judge_option_of_zoned_drive),
    Row::for_judged_option(&["ignore_zone_limits"], judge_option_of_zoned_drive),
    Row::for_judged_option(&["zone_reset_threshold"], judge_option_of_zoned_drive),
    Row::for_judged_option(&["zone_reset_frequency"], judge_option_of_zoned_drive),
];

fn print_unless_zero(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| bytes.to_string())
}

/// Refuses a number of zones on a zoned drive, such as `5z`: it has no model.
fn refuse_zone_count(text: &str) -> Result<(), Problem> {
    let zones = text.strip_suffix(['z', 'Z']);
    match zones.filter(|n| n.bytes().all(|b| b.is_ascii_digit()) && !n.is_empty()) {
        Some(_) => Err(Problem::unmodelled(format!(
            "`{}`: {ZONES}",
            escape_and_shorten(text)
        ))),
        None => Ok(()),
    }
}

fn is_zoned_drive(draft: &Draft) -> bool {
    draft.given_value("zonemode") == Some("zbd")
}

/// Judges the options for strided zones, which have gaps in between.
fn judge_strided_zones(draft: &Draft) -> Verdict {
    let zones = draft.job.places.zones;
    let why = if is_zoned_drive(draft) {
        // Refused already.
        return Verdict::Fine;
    } else if zones.mode == ZoneMode::None {
        "has no effect without zonemode=strided"
    } else if draft.job.files_per_process() > 1 {
        "has no effect: fio takes zones of one file only"
    } else {
        PLACES
    };
    Verdict::Ignored(why.to_owned())
}

fn judge_option_of_zoned_drive(draft: &Draft, _: &str) -> Verdict {
    if is_zoned_drive(draft) {
        // Refused already.
        Verdict::Fine
    } else {
        Verdict::Ignored("has no effect without zonemode=zbd".to_owned())
    }
}

/// Checks that fio would accept this text as a distribution of random offsets.
fn check_distribution(text: &str) -> Result<(), Problem> {
    const KINDS: [&str; 6] = ["random", "zipf", "pareto", "normal", "zoned", "zoned_abs"];
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "random" => Ok(()),
        "zipf" => check_distribution_parameter(rest, "theta", "another number than 1", |n| {
            !(1.0..=1.0).contains(&n)
        }),
        "pareto" => {
            check_distribution_parameter(rest, "the power", "more than 0 and less than 1", |n| {
                n > 0.0 && n < 1.0
            })
        }
        "normal" => {
            check_distribution_parameter(rest, "the deviation", "0 to less than 100", |n| {
                (0.0..100.0).contains(&n)
            })
        }
        "zoned" | "zoned_abs" => check_zoned_distribution(rest, kind == "zoned"),
        other => Err(not_one_of_problem(other, &KINDS)),
    }
}

/// Checks `parameter:center` of a distribution, where both may be missing.
fn check_distribution_parameter(
    text: &str,
    what: &str,
    range: &str,
    is_in_range: fn(f64) -> bool,
) -> Result<(), Problem> {
    let mut parts = text.split(':');
    let first = parts.next().filter(|part| !part.is_empty());
    if let Some(part) = first
        && !is_in_range(parse_finite_number(part)?)
    {
        let message = format!("{what} is `{}`; expected {range}", escape_and_shorten(part));
        return Err(Problem::new(message));
    }
    if let Some(part) = parts.next()
        && !(0.0..=1.0).contains(&parse_finite_number(part)?)
    {
        let message = format!(
            "the center is `{}`; expected 0 to 1",
            escape_and_shorten(part)
        );
        return Err(Problem::new(message));
    }
    Ok(())
}

fn parse_finite_number(text: &str) -> Result<f64, Problem> {
    let number: Option<f64> = text.parse().ok().filter(|n: &f64| n.is_finite());
    number.ok_or_else(|| Problem::new(format!("`{}` is not a number", escape_and_shorten(text))))
}

/// Checks `access/size:access/size` of a zoned distribution, where the accesses add up to 100 %.
fn check_zoned_distribution(text: &str, in_percent: bool) -> Result<(), Problem> {
    for list in text.split(',') {
        let (mut access, mut size) = (0_u32, 0_u32);
        for part in list.split(':') {
            let Some((share, whole)) = part.split_once('/') else {
                let message = format!(
                    "`{}` is not a zone; expected access/size",
                    escape_and_shorten(part)
                );
                return Err(Problem::new(message));
            };
            access += u32::from(parse_percent(share)?);
            if in_percent && !whole.is_empty() {
                size += u32::from(parse_percent(whole.trim_end_matches('%'))?);
            }
        }
        if access != 100 {
            let message = format!(
                "the accesses of `{}` add up to {access} %, not 100",
                escape_and_shorten(list)
            );
            return Err(Problem::new(message));
        }
        if size > 100 {
            let message = format!(
                "the sizes of `{}` add up to {size} %",
                escape_and_shorten(list)
            );
            return Err(Problem::new(message));
        }
    }
    Ok(())
}
