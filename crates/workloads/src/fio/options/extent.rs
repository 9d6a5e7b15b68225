//! fio options for the amount of data, and for the files.

use super::super::error::{LineProblem, OptionVerdict, escape_and_shorten};
use super::super::values::parse_percent;
use super::super::{FileSize, Size};
use super::row::OptionRow;
use super::value::{OptionValue, check_within, list_names, print_flag_as_digit};

const ORDER: &str = "is ignored: which of its files an I/O goes to does not matter to the model";

const KB_BASES: [(&str, ()); 2] = [("1000", ()), ("1024", ())];

pub(super) const ROWS: &[OptionRow] = &[
    // The option's effect is known before the section's lines are read.
    OptionRow::for_choice(
        &["kb_base"],
        || list_names(&KB_BASES),
        |_, value| value.parse_name(&KB_BASES),
    )
    .with_default("1024")
    .with_note("read before the other lines of its section"),
    OptionRow::for_job_field(&["size"], |job, value| {
        job.size = parse_percent_or_bytes_unless_zero(value)?;
        Ok(())
    })
    .with_printer(|job| job.size.map(|size| size.to_string()))
    .with_values("size, or `N%`")
    .with_default("see [below](#where-the-size-comes-from)")
    .with_note("of each process; 0 says nothing"),
    OptionRow::for_job_field(&["filesize"], |job, value| {
        job.filesize = Some(parse_file_size_or_range(value)?);
        Ok(())
    })
    .with_judge(|draft, _| match draft.job.filesize {
        Some(size) if size.least < size.most && !draft.job.goes_to_devices() => {
            OptionVerdict::Ignored(
                "has a range, of which fio takes a size at random; the model takes its middle"
                    .to_owned(),
            )
        }
        _ => OptionVerdict::Fine,
    })
    .with_printer(|job| job.filesize.map(|size| size.to_string()))
    .with_values("size, or range `A-B`")
    .with_note("of each file; the model takes the middle of a range, with a warning"),
    OptionRow::for_job_field(&["io_size", "io_limit"], |job, value| {
        job.io_size = parse_percent_or_bytes_unless_zero(value)?;
        Ok(())
    })
    .with_printer(|job| job.io_size.map(|size| size.to_string()))
    .with_values("size, or `N%`")
    .with_default("`size`")
    .with_note("bytes to transfer: less than `size`, or `size` several times"),
    OptionRow::for_job_field(&["number_ios"], |job, value| {
        let number = value.parse_bytes(0)?;
        job.number_ios = (number > 0).then_some(number);
        Ok(())
    })
    .with_printer(|job| job.number_ios.map(|number| number.to_string()))
    .with_values("count")
    .with_note("I/Os of each process, times `loops`"),
    OptionRow::for_count(&["loops"], 0, u32::MAX, |job, count| {
        job.loops = count.max(1);
    })
    .with_printer(|job| Some(job.loops.to_string()))
    .with_note("times that each process goes through its files"),
    OptionRow::for_count(&["nrfiles", "nr_files"], 0, u32::MAX, |job, count| {
        job.nrfiles = count.max(1);
    })
    .with_printer(|job| Some(job.nrfiles.to_string()))
    .with_note("files of each process, where `filename` names none"),
    OptionRow::for_flag(&["fill_device", "fill_fs"], |job, on| job.fill_device = on)
        .with_printer(|job| Some(print_flag_as_digit(job.fill_device)))
        .with_note("the size is the drive's"),
    OptionRow::for_ignored_option(&["file_service_type"], ORDER),
];

/// Parses a number of bytes, or a percentage; 0 means that nothing is given.
pub(super) fn parse_percent_or_bytes_unless_zero(
    value: &mut OptionValue<'_>,
) -> Result<Option<Size>, LineProblem> {
    Ok(match value.text.strip_suffix('%') {
        Some(share) => Some(Size::Percent(
            check_within(1, 100, u64::from(parse_percent(share)?))? as u8,
        )),
        None => Some(value.parse_bytes(0)?)
            .filter(|&b| b > 0)
            .map(Size::Bytes),
    })
}

/// Parses the size of a file: a number of bytes, or a range.
fn parse_file_size_or_range(value: &mut OptionValue<'_>) -> Result<FileSize, LineProblem> {
    let text = value.text;
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let size = FileSize {
        least: value.parse_bytes_in_part(least, 1)?,
        most: value.parse_bytes_in_part(most, 1)?,
    };
    if size.least > size.most {
        return Err(LineProblem::new(format!(
            "`{}` is a range that ends before it begins",
            escape_and_shorten(text)
        )));
    }
    Ok(size)
}
