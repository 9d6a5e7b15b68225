//! Decodes the 4096 bytes that `nvme id-ctrl -b` prints.

use super::printed::{
    IdCtrlProblem, PrintedDrive, SIZE, check_npss_below_32, decode_idle_or_active_power,
    decode_max_power, keep_five_bits_of_rank, trim_end_and_replace_control_characters,
};
use crate::drive::PowerState;

pub(super) fn decode_identify_structure(data: &[u8]) -> Result<PrintedDrive, IdCtrlProblem> {
    if data.len() != SIZE {
        return Err(IdCtrlProblem::Size(data.len()));
    }
    let model = trim_end_and_replace_control_characters(&String::from_utf8_lossy(&data[24..64]));
    let vendor = u16_le_at(data, 0);
    if model.is_empty() && vendor == 0 {
        return Err(IdCtrlProblem::Blank);
    }
    let npss = check_npss_below_32(data[263].into())?;
    let descriptors = data[2048..].chunks_exact(32);
    Ok(PrintedDrive {
        model: Some(model),
        firmware: Some(trim_end_and_replace_control_characters(
            &String::from_utf8_lossy(&data[64..72]),
        )),
        vendor_id: Some(vendor),
        subsystem_vendor_id: Some(u16_le_at(data, 2)),
        npss: Some(npss),
        apsta: Some(data[265] != 0),
        capacity_bytes: capacity_below_2_to_the_64(&data[280..296]),
        states: descriptors
            .take(usize::from(npss) + 1)
            .map(decode_power_state_descriptor)
            .collect(),
        coarse_powers: false,
    })
}

/// A capacity in 16 bytes; `None` above 2^64, beyond all drives.
fn capacity_below_2_to_the_64(data: &[u8]) -> Option<u64> {
    let (low, high) = data.split_first_chunk::<8>()?;
    high.iter()
        .all(|byte| *byte == 0)
        .then_some(u64::from_le_bytes(*low))
}

fn u16_le_at(data: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([data[at], data[at + 1]])
}

fn u32_le_at(data: &[u8], at: usize) -> u32 {
    u32::from(u16_le_at(data, at + 2)) << 16 | u32::from(u16_le_at(data, at))
}

/// Decodes the 32 bytes of a power state descriptor.
fn decode_power_state_descriptor(descriptor: &[u8]) -> PowerState {
    let flags = descriptor[3];
    let (idle, active) = (u16_le_at(descriptor, 16), u16_le_at(descriptor, 20));
    PowerState {
        max_power: decode_max_power(u16_le_at(descriptor, 0).into(), flags & 1 != 0),
        non_operational: flags & 2 != 0,
        entry_latency_us: u32_le_at(descriptor, 4),
        exit_latency_us: u32_le_at(descriptor, 8),
        read_throughput_rank: keep_five_bits_of_rank(descriptor[12].into()),
        read_latency_rank: keep_five_bits_of_rank(descriptor[13].into()),
        write_throughput_rank: keep_five_bits_of_rank(descriptor[14].into()),
        write_latency_rank: keep_five_bits_of_rank(descriptor[15].into()),
        idle_power: decode_idle_or_active_power(idle.into(), (descriptor[18] >> 6).into()),
        active_power: decode_idle_or_active_power(active.into(), (descriptor[22] >> 6).into()),
    }
}
