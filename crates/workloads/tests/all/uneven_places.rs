//! Blocks that fio and wakepath draw for `random_distribution`, by fio's own log.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::collections::BTreeMap;
use std::process::Command;

use wakepath_workloads::fio::{self, UnevenPlaces};

use crate::against_fio::fio_is_here;

/// Blocks of the file: no power of two, so that some ranks share a block.
const BLOCKS: u64 = 768;

const DRAWS: u64 = 4000;

fn job_text(distribution: &str) -> String {
    format!(
        "[a]\nfilename=f\nsize={}k\nbs=4k\nrw=randread\nio_size=100m\nnumber_ios={DRAWS}\n\
         random_distribution={distribution}\n",
        BLOCKS * 4
    )
}

/// How often fio reads each block, from the most often on.
fn counts_of_fio(distribution: &str) -> Vec<(u64, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{}write_iolog=log\n", job_text(distribution));
    std::fs::write(folder.path().join("t.fio"), text).unwrap();
    let mut command = Command::new("fio");
    let output = command.arg("t.fio").current_dir(folder.path()).output();
    let log = std::fs::read_to_string(folder.path().join("log"));
    let log = log.unwrap_or_else(|e| panic!("{e}: {output:?}"));
    let mut counts = BTreeMap::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [_, _, "read", offset, _] = words[..] {
            *counts
                .entry(offset.parse::<u64>().unwrap() / 4096)
                .or_insert(0) += 1;
        }
    }
    sort_by_count(counts)
}

/// How often the model reads each block, likewise. As many draws share the luck of blocks that are drawn seldom.
fn counts_of_model(distribution: &str) -> Vec<(u64, u64)> {
    let file = fio::parse(&job_text(distribution), "t.fio").unwrap();
    assert_eq!(file.unmodelled, []);
    let job = &file.jobs[0];
    let places = UnevenPlaces::for_buffered_job(job, BLOCKS * 4096, 4096).unwrap();
    let first_rank = places.first_rank_of_process(0);
    let mut counts = BTreeMap::new();
    let mut state = 1_u64;
    for _ in 0..DRAWS {
        // Numbers of Knuth's MMIX. Their upper halves count.
        state =
            (state.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1_442_695_040_888_963_407);
        let chance = (state >> 32) as f64 / f64::from(u32::MAX);
        *counts
            .entry(places.block_for_chance(chance, first_rank))
            .or_insert(0) += 1;
    }
    sort_by_count(counts)
}

fn sort_by_count(counts: BTreeMap<u64, u64>) -> Vec<(u64, u64)> {
    let mut sorted: Vec<(u64, u64)> = counts.into_iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    sorted
}

#[test]
fn fio_comes_as_often_to_its_blocks() {
    if !fio_is_here("fio_comes_as_often_to_its_blocks") {
        return;
    }
    for distribution in [
        "zipf:1.2",
        "zipf:0.8",
        "zipf:1.2:0.5",
        "pareto:0.2",
        "pareto:0.1:0.1",
    ] {
        let [real, ours] = [counts_of_fio(distribution), counts_of_model(distribution)];
        for most in [1, 3, 10, 100, 300] {
            let [real_share, our_share] = [&real, &ours].map(|counts| {
                let drawn: u64 = counts.iter().take(most).map(|(_, count)| count).sum();
                drawn as f64 / DRAWS as f64
            });
            assert!(
                (real_share - our_share).abs() < 0.03,
                "{distribution}, {most} blocks: {real_share} in fio, {our_share} here"
            );
        }
        // The second block lies as far behind the first one.
        let distances = [&real, &ours].map(|counts| (counts[1].0 + BLOCKS - counts[0].0) % BLOCKS);
        assert_eq!(distances[0], distances[1], "{distribution}");
        let is_centered = distribution.split(':').count() == 3;
        assert!(!is_centered || real[0].0 == ours[0].0, "{distribution}");
    }
}
