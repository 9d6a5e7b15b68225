//! fio options for the amount of data, and for the files.

use super::super::error::{Problem, Verdict, escape_and_shorten};
use super::super::values::parse_percent;
use super::super::{FileSize, Size};
use super::row::Row;
use super::value::{Value, check_within, print_flag};

const ORDER: &str = "is ignored: which of its files an I/O goes to does not matter to the model";

pub(super) const ROWS: &[Row] = &[
    // The option's effect is known before the section's lines are read.
    Row::for_field(&["kb_base"], |_, value| match value.text {
        "1000" | "1024" => Ok(()),
        text => Err(Problem::new(format!(
            "`{}` is not 1000 or 1024",
            escape_and_shorten(text)
        ))),
    }),
    Row::for_field(&["size"], |job, value| {
        job.size = parse_share_or_bytes(value)?;
        Ok(())
    })
    .with_printer(|job| job.size.map(|size| size.to_string())),
    Row::for_field(&["filesize"], |job, value| {
        job.filesize = Some(parse_file_size(value)?);
        Ok(())
    })
    .with_judge(|draft, _| match draft.job.filesize {
        Some(size) if size.least < size.most && !draft.job.goes_to_devices() => Verdict::Ignored(
            "has a range, of which fio takes a size at random; the model takes its middle"
                .to_owned(),
        ),
        _ => Verdict::Fine,
    })
    .with_printer(|job| job.filesize.map(|size| size.to_string())),
    Row::for_field(&["io_size", "io_limit"], |job, value| {
        job.io_size = parse_share_or_bytes(value)?;
        Ok(())
    })
    .with_printer(|job| job.io_size.map(|size| size.to_string())),
    Row::for_field(&["number_ios"], |job, value| {
        let number = value.parse_bytes(0)?;
        job.number_ios = (number > 0).then_some(number);
        Ok(())
    })
    .with_printer(|job| job.number_ios.map(|number| number.to_string())),
    Row::for_field(&["loops"], |job, value| {
        job.loops = value.parse_count(0, u32::MAX)?.max(1);
        Ok(())
    })
    .with_printer(|job| Some(job.loops.to_string())),
    Row::for_field(&["nrfiles", "nr_files"], |job, value| {
        job.nrfiles = value.parse_count(0, u32::MAX)?.max(1);
        Ok(())
    })
    .with_printer(|job| Some(job.nrfiles.to_string())),
    Row::for_field(&["fill_device", "fill_fs"], |job, value| {
        job.fill_device = value.parse_switch()?;
        Ok(())
    })
    .with_flag()
    .with_printer(|job| Some(print_flag(job.fill_device))),
    Row::for_ignored_option(&["file_service_type"], ORDER),
];

/// Parses a number of bytes, or a percentage; 0 means that nothing is given.
pub(super) fn parse_share_or_bytes(value: &mut Value<'_>) -> Result<Option<Size>, Problem> {
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
fn parse_file_size(value: &mut Value<'_>) -> Result<FileSize, Problem> {
    let text = value.text;
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let size = FileSize {
        least: value.parse_bytes_in_part(least, 1)?,
        most: value.parse_bytes_in_part(most, 1)?,
    };
    if size.least > size.most {
        return Err(Problem::new(format!(
            "`{}` is a range that ends before it begins",
            escape_and_shorten(text)
        )));
    }
    Ok(size)
}
