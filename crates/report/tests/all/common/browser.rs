//! Debian's Chromium without a window, spoken to over its DevTools protocol.
//!
//! `--remote-debugging-pipe` takes and gives JSON messages, each ended by a zero byte, on the file descriptors 3 and 4: no
//! port, no web socket, no driver of the right version.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use serde_json::{Value, json};
use tempfile::TempDir;

const PROGRAM: &str = "/usr/bin/chromium";

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: String,
    last: u64,
    events: VecDeque<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts it; `None` if there is no Chromium, which `WAKEPATH_REQUIRE_ALL` forbids.
    pub(crate) fn start(test: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            let reason = "no chromium (scripts/setup-debian.sh)";
            assert!(
                std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
                "{reason}"
            );
            eprintln!("skipped: {test}: {reason}");
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args([
                "-c",
                "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null",
                "sh",
                PROGRAM,
            ])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut browser = Self {
            child,
            input,
            output,
            session: String::new(),
            last: 0,
            events: VecDeque::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            &json!({"targetId": target["targetId"], "flatten": true}),
        );
        attached["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Sends a command and waits for its answer; events that come before it are kept.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        loop {
            let mut message = self.read();
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.events.push_back(message);
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        let read = self.output.read_until(0, &mut bytes).unwrap();
        assert!(read > 0, "chromium has ended");
        bytes.pop();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Waits for an event of this name.
    pub(crate) fn wait(&mut self, event: &str) {
        if self.events.iter().any(|e| e["method"] == event) {
            return;
        }
        loop {
            let message = self.read();
            let found = message["method"] == event;
            self.events.push_back(message);
            if found {
                return;
            }
        }
    }

    /// Opens a file in a window of this size, and waits until it is loaded.
    pub(crate) fn open(&mut self, path: &Path, width: u32, height: u32, dark: bool) {
        self.call("Emulation.setDeviceMetricsOverride", &json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}),
        );
        let scheme = if dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        self.events.clear();
        self.call(
            "Page.navigate",
            &json!({"url": format!("file://{}", path.display())}),
        );
        self.wait("Page.loadEventFired");
    }

    /// Lets the page save files into a folder.
    pub(crate) fn save_into(&mut self, folder: &Path) {
        self.call(
            "Browser.setDownloadBehavior",
            &json!({"behavior": "allow", "downloadPath": folder}),
        );
    }

    /// The page as it is printed, as a PDF.
    pub(crate) fn print(&mut self) -> Vec<u8> {
        let printed = self.call("Page.printToPDF", &json!({"printBackground": true}));
        base64::prelude::BASE64_STANDARD
            .decode(printed["data"].as_str().unwrap())
            .unwrap()
    }

    /// What an expression comes to; a promise is waited for.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let mut answer = self.call(
            "Runtime.evaluate",
            &json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].take()
    }

    /// Clicks at a place in the window.
    pub(crate) fn click(&mut self, x: f64, y: f64) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            self.call(
                "Input.dispatchMouseEvent",
                &json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}),
            );
        }
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowRight" => 39,
            _ => u32::from(key.as_bytes()[0]),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            if kind == "keyDown" && key == "Enter" {
                event["text"] = "\r".into();
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Draws every picture of every workload and comes back when they are there.
    pub(crate) fn draw_all(&mut self) {
        self.evaluate(
            "(async () => {
                const pause = () => new Promise((r) => setTimeout(r, 60));
                const pick = document.getElementById('workload');
                for (const option of pick ? [...pick.options] : []) {
                    pick.value = option.value;
                    pick.dispatchEvent(new Event('change'));
                    for (const figure of document.querySelectorAll('figure.picture')) {
                        if (!figure.checkVisibility()) continue;
                        figure.scrollIntoView();
                        for (let i = 0; i < 50 && !figure.dataset.drawn; i += 1) await pause();
                    }
                }
                if (pick) { pick.selectedIndex = 0; pick.dispatchEvent(new Event('change')); }
                scrollTo(0, 0);
                await pause();
            })()",
        );
    }

    /// A picture of a part of the page as PNG: of this height from `top` on.
    pub(crate) fn screenshot(&mut self, top: u32, height: u32) -> Vec<u8> {
        let width = self.evaluate("innerWidth");
        let shot = self.call(
            "Page.captureScreenshot",
            &json!({
                "format": "png",
                "captureBeyondViewport": true,
                "clip": {"x": 0, "y": top, "width": width, "height": height, "scale": 1},
            }),
        );
        base64::prelude::BASE64_STANDARD
            .decode(shot["data"].as_str().unwrap())
            .unwrap()
    }

    /// Errors and warnings of the console, and exceptions.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        // What is under way comes before the answer to this.
        self.evaluate("1");
        self.events
            .iter()
            .filter(|e| match e["method"].as_str() {
                Some("Runtime.exceptionThrown") => true,
                Some("Runtime.consoleAPICalled") => ["error", "warning", "assert"]
                    .contains(&e["params"]["type"].as_str().unwrap_or("")),
                Some("Log.entryAdded") => e["params"]["entry"]["level"] != "verbose",
                _ => false,
            })
            .map(|e| e["params"].to_string())
            .collect()
    }

    /// Addresses that the page has asked for since it was opened, besides itself.
    pub(crate) fn requests(&mut self) -> Vec<String> {
        self.evaluate("1");
        let of_page = self
            .events
            .iter()
            .filter(|e| e["method"] == "Network.requestWillBeSent");
        let addresses = of_page.map(|e| {
            e["params"]["request"]["url"]
                .as_str()
                .unwrap_or("")
                .to_owned()
        });
        // A data address is a part of the page; the first is the page.
        addresses
            .skip(1)
            .filter(|a| !a.starts_with("data:"))
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
