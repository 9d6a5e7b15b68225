//! Configurations of the daemon: an accepted configuration asks only for policies of the daemon; a refusal is one line
//! with a line number.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_settings::daemon_config::Config;

fuzz_target!(|text: &str| {
    match Config::parse("fuzz.toml", text) {
        Ok(config) => {
            if let Some(psd) = config.policy.requested_lease_settings() {
                assert!((1..=10_000).contains(&psd.timeout_ms));
                assert!((1..=1000).contains(&psd.start_after));
            }
            for drive in config.drive {
                let _ = wakepath_daemon::profile::matches_wildcards(&drive.model, text);
            }
        }
        Err(error) => assert!(error.to_string().starts_with("fuzz.toml:")),
    }
});
