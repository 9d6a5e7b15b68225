//! The drive with APST of the rig (rig/guest/apst_drive.py), spoken to as the kernel's driver does, without a guest.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use wakepath_hardware::drive::{Drive, DriveLibrary, id_ctrl};
use wakepath_policies::apst::ApstTable;
use wakepath_system::nvme::ApstFeature;

use crate::common::{repository, skip};

/// Opcodes and status codes of the NVMe base specification.
const IDENTIFY: u8 = 0x06;
const SET_FEATURES: u8 = 0x09;
const GET_FEATURES: u8 = 0x0a;
const FABRICS: u8 = 0x7f;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const INVALID_FIELD: u16 = 0x02;
const OUT_OF_RANGE: u16 = 0x80;
/// Set Features with this bit asks for a value that survives resets.
const SAVE: u32 = 1 << 31;
const APST: u32 = 0x0c;
const PATIENCE: Duration = Duration::from_secs(30);

/// The drive of the library whose power states the rig's drive declares.
pub(crate) fn declared_drive() -> Drive {
    let model = "WDC PC SN530 SDBPNPZ-256G-1006";
    let entry = DriveLibrary::builtin().find_one_model(model).unwrap();
    let mut drive = entry.most_frequent_table().drive.clone();
    for state in &mut drive.states {
        // Nothing in a table depends on it.
        state.active_power = None;
    }
    drive
}

/// A running drive, and the lines that it prints.
struct RunningDrive {
    process: Child,
    events: Lines<BufReader<ChildStdout>>,
    port: u16,
}

impl RunningDrive {
    /// `Err`: why there is none.
    fn start() -> Result<Self, String> {
        let mut process = Command::new("python3")
            .arg(repository().join("rig/guest/apst_drive.py"))
            .args(["--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("python3: {error}"))?;
        let mut drive = Self {
            events: BufReader::new(process.stdout.take().unwrap()).lines(),
            process,
            port: 0,
        };
        let ready = drive.next_event();
        drive.port = ready.strip_prefix("ready ").unwrap().parse().unwrap();
        Ok(drive)
    }

    fn next_event(&mut self) -> String {
        self.events.next().unwrap().unwrap()
    }
}

impl Drop for RunningDrive {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a drive answers to a command.
struct Answer {
    status: u16,
    result: u64,
    data: Vec<u8>,
}

impl Answer {
    /// The answer of a command that has to succeed.
    fn expect_success(self) -> Self {
        assert_eq!(self.status, 0);
        self
    }
}

/// A command for so many bytes of data, with the two words that begin its own parameters.
fn command(opcode: u8, length: usize, [dword10, dword11]: [u32; 2]) -> [u8; 64] {
    let mut command = [0; 64];
    command[0] = opcode;
    command[32..36].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
    command[40..44].copy_from_slice(&dword10.to_le_bytes());
    command[44..48].copy_from_slice(&dword11.to_le_bytes());
    command
}

/// A queue of a drive's commands. Queue 0 is for administration, and its connection resets the drive.
struct CommandQueue {
    stream: TcpStream,
    commands_sent: u16,
}

impl CommandQueue {
    fn connect(port: u16, number: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = [0; 128];
        (request[2], request[4]) = (128, 128);
        stream.write_all(&request).unwrap();
        let mut response = [0; 128];
        stream.read_exact(&mut response).unwrap();
        assert_eq!(response[0], 1, "type of the packet");
        let mut queue = Self {
            stream,
            commands_sent: 0,
        };
        let data = [0; 1024];
        let mut connect = command(FABRICS, data.len(), [u32::from(number) << 16, 0]);
        connect[4] = 1;
        queue.send(connect, &data).expect_success();
        queue
    }

    /// Sends a command with its data, and waits for the answer.
    fn send(&mut self, mut command: [u8; 64], data: &[u8]) -> Answer {
        self.commands_sent += 1;
        command[2..4].copy_from_slice(&self.commands_sent.to_le_bytes());
        let length = u32::try_from(72 + data.len()).unwrap();
        let data_offset = if data.is_empty() { 0 } else { 72 };
        let mut packet = vec![4, 0, 72, data_offset];
        packet.extend(length.to_le_bytes());
        packet.extend(command);
        packet.extend(data);
        self.stream.write_all(&packet).unwrap();
        let mut received = Vec::new();
        loop {
            let packet = self.receive_packet();
            match packet[0] {
                // The offset and the length of these data.
                7 => {
                    assert_eq!(packet[8..10], self.commands_sent.to_le_bytes());
                    assert_eq!(packet[12..16], [0; 4]);
                    received = packet[24..].to_vec();
                }
                5 => {
                    assert_eq!(packet[20..22], self.commands_sent.to_le_bytes());
                    return Answer {
                        status: u16::from_le_bytes(packet[22..24].try_into().unwrap()) >> 1,
                        result: u64::from_le_bytes(packet[8..16].try_into().unwrap()),
                        data: received,
                    };
                }
                other => panic!("a packet of type {other}"),
            }
        }
    }

    fn receive_packet(&mut self) -> Vec<u8> {
        let mut packet = vec![0; 8];
        self.stream.read_exact(&mut packet).unwrap();
        let length = u32::from_le_bytes(packet[4..8].try_into().unwrap());
        packet.resize(usize::try_from(length).unwrap(), 0);
        self.stream.read_exact(&mut packet[8..]).unwrap();
        packet
    }
}

#[test]
fn the_rigs_drive_declares_the_power_states_of_a_real_one() {
    let drive = match RunningDrive::start() {
        Ok(drive) => drive,
        Err(reason) => {
            return skip(
                "the_rigs_drive_declares_the_power_states_of_a_real_one",
                &reason,
            );
        }
    };
    let mut queue = CommandQueue::connect(drive.port, 0);
    let answer = queue.send(command(IDENTIFY, id_ctrl::SIZE, [1, 0]), &[]);
    let identity = answer.expect_success().data;
    let declared = id_ctrl::parse_drive_dump("the rig's drive", &identity).unwrap();
    let real = declared_drive();
    assert_eq!(declared.drive.apsta, Some(true));
    assert_eq!(declared.drive.npss, real.npss);
    assert_eq!(declared.drive.states, real.states);
}

#[test]
fn the_rigs_drive_keeps_a_table_until_it_is_connected_anew() {
    let mut drive = match RunningDrive::start() {
        Ok(drive) => drive,
        Err(reason) => {
            return skip(
                "the_rigs_drive_keeps_a_table_until_it_is_connected_anew",
                &reason,
            );
        }
    };
    let mut queue = CommandQueue::connect(drive.port, 0);
    assert_eq!(drive.next_event(), "reset");
    let table: Vec<u8> = (0..=255).collect();
    let mut feature = ApstFeature {
        enabled: true,
        table: ApstTable::from_bytes(&table).unwrap(),
    };
    let get = command(GET_FEATURES, 256, [APST, 0]);

    let set = command(SET_FEATURES, 256, [APST, 1]);
    queue.send(set, &table).expect_success();
    assert_eq!(drive.next_event(), format!("set {feature}"));
    let found = queue.send(get, &[]).expect_success();
    assert_eq!((found.result, found.data), (1, table.clone()));
    assert_eq!(drive.next_event(), format!("get {feature}"));

    let save = command(SET_FEATURES, 256, [APST | SAVE, 0]);
    queue.send(save, &table).expect_success();
    feature.enabled = false;
    assert_eq!(drive.next_event(), format!("set saved:{feature}"));
    let temperature = command(GET_FEATURES, 4, [0x04, 0]);
    assert_eq!(queue.send(temperature, &[]).status, INVALID_FIELD);

    let mut anew = CommandQueue::connect(drive.port, 0);
    assert_eq!(drive.next_event(), "reset");
    let found = anew.send(get, &[]).expect_success();
    assert_eq!((found.result, found.data), (0, vec![0; 256]));
}

#[test]
fn the_rigs_drive_keeps_its_data_in_a_reset() {
    let drive = match RunningDrive::start() {
        Ok(drive) => drive,
        Err(reason) => {
            return skip("the_rigs_drive_keeps_its_data_in_a_reset", &reason);
        }
    };
    let mut admin = CommandQueue::connect(drive.port, 0);
    let mut queue = CommandQueue::connect(drive.port, 1);
    // The namespace, its size in blocks of 512 bytes.
    let mut identify = command(IDENTIFY, 4096, [0, 0]);
    identify[4] = 1;
    let namespace = admin.send(identify, &[]).expect_success().data;
    let blocks = u64::from_le_bytes(namespace[..8].try_into().unwrap());
    assert_eq!(1_u32 << namespace[130], 512);

    let last_two = u32::try_from(blocks).unwrap() - 2;
    let blocks_of_data: Vec<u8> = (0..=250).cycle().take(1024).collect();
    let on_two_blocks = |opcode: u8, first: u32| {
        let mut command = command(opcode, 1024, [first, 0]);
        command[48] = 1;
        command
    };
    queue
        .send(on_two_blocks(WRITE, last_two), &blocks_of_data)
        .expect_success();
    let beyond = queue.send(on_two_blocks(READ, last_two + 1), &[]);
    assert_eq!(beyond.status, OUT_OF_RANGE);

    drop((admin, queue));
    let _admin = CommandQueue::connect(drive.port, 0);
    let mut queue = CommandQueue::connect(drive.port, 1);
    let found = queue
        .send(on_two_blocks(READ, last_two), &[])
        .expect_success();
    assert_eq!(found.data, blocks_of_data);
}
