//! How much a job transfers, and out of how many files.

use super::super::error::{Problem, Verdict, shown};
use super::super::values::percent;
use super::super::{FileSize, Size};
use super::row::Row;
use super::value::{Value, flag, within};

const ORDER: &str = "is ignored: which of its files an I/O goes to does not matter to the model";

pub(super) const ROWS: &[Row] = &[
    // The effect is known before the section's lines are read.
    Row::sets(&["kb_base"], |_, value| match value.text {
        "1000" | "1024" => Ok(()),
        text => Err(Problem::new(format!(
            "`{}` is not 1000 or 1024",
            shown(text)
        ))),
    }),
    Row::sets(&["size"], |job, value| {
        job.size = share_or_bytes(value)?;
        Ok(())
    })
    .printed(|job| job.size.map(|size| size.to_string())),
    Row::sets(&["filesize"], |job, value| {
        job.filesize = Some(file_size(value)?);
        Ok(())
    })
    .judged(|draft, _| match draft.job.filesize {
        Some(size) if size.least < size.most && !draft.job.is_on_device() => Verdict::Ignored(
            "has a range, of which fio takes a size at random; the model takes its middle"
                .to_owned(),
        ),
        _ => Verdict::Fine,
    })
    .printed(|job| job.filesize.map(|size| size.to_string())),
    Row::sets(&["io_size", "io_limit"], |job, value| {
        job.io_size = share_or_bytes(value)?;
        Ok(())
    })
    .printed(|job| job.io_size.map(|size| size.to_string())),
    Row::sets(&["number_ios"], |job, value| {
        let number = value.bytes(0)?;
        job.number_ios = (number > 0).then_some(number);
        Ok(())
    })
    .printed(|job| job.number_ios.map(|number| number.to_string())),
    Row::sets(&["loops"], |job, value| {
        job.loops = value.count(0, u32::MAX)?.max(1);
        Ok(())
    })
    .printed(|job| Some(job.loops.to_string())),
    Row::sets(&["nrfiles", "nr_files"], |job, value| {
        job.nrfiles = value.count(0, u32::MAX)?.max(1);
        Ok(())
    })
    .printed(|job| Some(job.nrfiles.to_string())),
    Row::sets(&["fill_device", "fill_fs"], |job, value| {
        job.fill_device = value.switch()?;
        Ok(())
    })
    .flag()
    .printed(|job| Some(flag(job.fill_device))),
    Row::ignored(&["file_service_type"], ORDER),
];

/// A number of bytes, or a share; 0 says nothing.
pub(super) fn share_or_bytes(value: &mut Value<'_>) -> Result<Option<Size>, Problem> {
    Ok(match value.text.strip_suffix('%') {
        Some(share) => Some(Size::Percent(
            within(1, 100, u64::from(percent(share)?))? as u8
        )),
        None => Some(value.bytes(0)?).filter(|&b| b > 0).map(Size::Bytes),
    })
}

/// A number of bytes, or a range.
fn file_size(value: &mut Value<'_>) -> Result<FileSize, Problem> {
    let text = value.text;
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let size = FileSize {
        least: value.bytes_of(least, 1)?,
        most: value.bytes_of(most, 1)?,
    };
    if size.least > size.most {
        return Err(Problem::new(format!(
            "`{}` is a range that ends before it begins",
            shown(text)
        )));
    }
    Ok(size)
}
