//! A quick end-to-end run over a handful of inputs. The real comparison, of a million calls per
//! governor, is the program's `run` command, which `make test` calls.

use std::process::Command;

use anyhow::Result;
use assert_cmd::cargo::cargo_bin;
use wakepath_conformance::checks::{Check as _, GovernorCheck, GovernorSetting, compare_batch};
use wakepath_conformance::generate;
use wakepath_conformance::program::{Alteration, KernelProgram, has_compiler};
use wakepath_conformance::record::format_decision;
use wakepath_conformance::shrink::shrink_case;
use wakepath_conformance::source::{KernelSource, source_cache_folder};
use wakepath_conformance::subject::Subject;
use wakepath_policies::idle::KernelVersion;
use wakepath_units::TickRate;

/// Runs the program, or says why not: it needs gcc, and kernel sources that are in the cache, are
/// installed, or can be had from apt.
fn run(arguments: &[&str]) -> Result<Option<(bool, String)>> {
    if !has_compiler() {
        eprintln!("skipped: no gcc");
        return Ok(None);
    }
    let output = Command::new(cargo_bin("wakepath-conformance"))
        .args(arguments)
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("error: linux-source-") || errors.contains("error: cannot obtain") {
        eprintln!("skipped: {}", errors.trim());
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Some((output.status.success(), format!("{text}{errors}"))))
}

#[test]
fn a_few_calls_agree() -> Result<()> {
    let arguments = [
        "run", "--calls", "2000", "--tables", "500", "--drives", "500", "--seed", "99",
    ];
    if let Some((success, text)) = run(&arguments)? {
        assert!(success, "{text}");
        assert!(text.contains(" 0 differ"), "{text}");
        assert!(
            text.contains("comparing with linux-source-6.12 6.12."),
            "{text}"
        );
    }
    Ok(())
}

#[test]
fn comparing_nothing_is_no_pass() -> Result<()> {
    for arguments in [
        ["run", "--calls", "0"],
        ["run", "--tables", "0"],
        ["mutants", "--batches", "0"],
        ["coverage", "--batches", "0"],
    ] {
        let output = Command::new(cargo_bin("wakepath-conformance"))
            .args(arguments)
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains("invalid value '0'"), "{errors}");
    }
    Ok(())
}

#[test]
fn a_difference_is_shrunk_to_a_log_that_shows_it() -> Result<()> {
    let source =
        has_compiler().then(|| KernelSource::obtain_source("6.12", &source_cache_folder()));
    let Some(Ok(source)) = source else {
        eprintln!("skipped: no gcc or no kernel source");
        return Ok(());
    };
    let setting = GovernorSetting {
        subject: Subject::Menu,
        version: KernelVersion::V6_12,
        tick: TickRate::HZ_250,
    };
    let altered = Alteration {
        file: Subject::Menu.kernel_file(),
        from: "#define DECAY 8",
        to: "#define DECAY 16",
    };
    let program = KernelProgram::compile_subject(setting.subject, &source, 250, Some(&altered))?;
    let outcome = compare_batch(
        setting,
        &program,
        &mut generate::batch_generator(1, 0),
        0,
        20_000,
    )?;
    assert!(outcome.differences > 0);
    let case = outcome.first.and_then(|first| first.case);
    let case = case.ok_or_else(|| anyhow::anyhow!("a governor's difference has a case"))?;

    let small = shrink_case(setting, &program, &case)?;
    assert!(small.calls.len() < case.calls.len());
    let check = GovernorCheck(setting);
    let (mut input, mut ours) = (Vec::new(), Vec::new());
    check.append_input(&small, &mut input);
    check.append_our_answers(&small, &mut ours)?;
    let kernel = program.run_over_input(&input)?;
    assert_eq!(kernel.len(), ours.len());
    assert_eq!(kernel[..ours.len() - 1], ours[..ours.len() - 1]);
    assert_ne!(kernel.last(), ours.last());

    // The files that are written tell the same story as the binary records.
    let folder = tempfile::tempdir()?;
    let (states, calls) = (folder.path().join("s.csv"), folder.path().join("c.csv"));
    std::fs::write(&states, small.states_csv())?;
    std::fs::write(&calls, small.calls_csv())?;
    let text = Command::new(program.path())
        .args([&states, &calls])
        .output()?;
    let expected: String = kernel.iter().map(|&b| format_decision(b) + "\n").collect();
    assert_eq!(String::from_utf8(text.stdout)?, expected);
    Ok(())
}

#[test]
fn a_stale_alteration_is_an_error() {
    let source =
        has_compiler().then(|| KernelSource::obtain_source("6.12", &source_cache_folder()));
    let Some(Ok(source)) = source else {
        eprintln!("skipped: no gcc or no kernel source");
        return;
    };
    let stale = Alteration {
        file: Subject::Ladder.kernel_file(),
        from: "#define PROMOTION_COUNT 400",
        to: "#define PROMOTION_COUNT 5",
    };
    let error =
        KernelProgram::compile_subject(Subject::Ladder, &source, 250, Some(&stale)).unwrap_err();
    assert!(format!("{error:#}").contains("stale mutant"), "{error:#}");
}
