//! fio job files: an accepted file prints as an equal job file, and its jobs end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_workloads::fio::{self, Draw, Sizes, Walk};

/// A sequence of numbers without chance.
struct Numbers(u64);

impl Draw for Numbers {
    fn draw_below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0 % n
    }

    fn draw_size(&mut self, sizes: &Sizes) -> u64 {
        if self.draw_below(2) == 0 {
            sizes.smallest()
        } else {
            sizes.largest()
        }
    }
}

fuzz_target!(|text: &str| {
    match fio::parse(text, "fuzz.fio") {
        Ok(mut file) => {
            let printed = file.to_string();
            let mut back = fio::parse(&printed, "printed.fio").expect("own output");
            for job in file.jobs.iter_mut().chain(&mut back.jobs) {
                job.line = 0;
            }
            assert_eq!(file.jobs, back.jobs);
            for job in &file.jobs {
                job.process_limits(1 << 24);
                let (mut walk, mut numbers) = (Walk::for_job(job, 1 << 24), Numbers(1));
                for number in 0..100 {
                    let next = walk
                        .as_mut()
                        .and_then(|walk| walk.next_io(number % 2, &mut numbers));
                    assert!(next.is_none_or(|next| next.bytes > 0));
                }
            }
        }
        Err(error) => {
            for problem in &error.problems {
                assert!(!problem.to_string().contains('\n'));
                assert!(problem.line.is_none_or(|line| line <= text.lines().count()));
            }
        }
    }
});
