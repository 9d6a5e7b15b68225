//! The 4096 bytes of `nvme id-ctrl -b`.

use super::{IdCtrlProblem, Printed, SIZE, checked_npss, max_power, rank, scaled_power, string};
use crate::drive::PowerState;

pub(super) fn read(data: &[u8]) -> Result<Printed, IdCtrlProblem> {
    if data.len() != SIZE {
        return Err(IdCtrlProblem::Size(data.len()));
    }
    let u16_at = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
    let u32_at = |at: usize| u32::from(u16_at(at + 2)) << 16 | u32::from(u16_at(at));
    let text_at = |range: std::ops::Range<usize>| string(&String::from_utf8_lossy(&data[range]));
    let (model, vendor) = (text_at(24..64), u16_at(0));
    if model.is_empty() && vendor == 0 {
        return Err(IdCtrlProblem::Blank);
    }
    let npss = checked_npss(data[263].into())?;
    let state = |index: usize| {
        let at = 2048 + 32 * index;
        let byte = |offset: usize| u64::from(data[at + offset]);
        let word = |offset: usize| u64::from(u16_at(at + offset));
        PowerState {
            max_power: max_power(word(0), byte(3) & 1 != 0),
            non_operational: byte(3) & 2 != 0,
            entry_latency_us: u32_at(at + 4),
            exit_latency_us: u32_at(at + 8),
            read_throughput_rank: rank(byte(12)),
            read_latency_rank: rank(byte(13)),
            write_throughput_rank: rank(byte(14)),
            write_latency_rank: rank(byte(15)),
            idle_power: scaled_power(word(16), byte(18) >> 6),
            active_power: scaled_power(word(20), byte(22) >> 6),
        }
    };
    Ok(Printed {
        model: Some(model),
        firmware: Some(text_at(64..72)),
        vendor_id: Some(vendor),
        subsystem_vendor_id: Some(u16_at(2)),
        npss: Some(npss),
        apsta: Some(data[265] != 0),
        states: (0..=usize::from(npss)).map(state).collect(),
        coarse_powers: false,
    })
}
