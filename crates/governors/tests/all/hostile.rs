//! C code and programs of somebody who means harm: they read no file of the user's, write none, start nothing that stays,
//! and get the network of nobody.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiler::has_gcc;
use crate::processes::{running, script, wait};
use wakepath_governors::load_governor;
use wakepath_hardware::{IdleState, IdleStates};
use wakepath_policies::idle::{Governor, IdleGovernor, IdleQuery};
use wakepath_units::{Nanoseconds, TickRate};

/// What nobody may find out.
const SECRET: &str = "int hunter2_secret = 1;";

fn states() -> IdleStates {
    let state = |index: u64| IdleState {
        name: format!("C{index}"),
        exit_latency: Nanoseconds(index * 2_000),
        target_residency: Nanoseconds(index * 20_000),
        polling: index == 0,
        disabled: false,
    };
    IdleStates::new((0..3).map(state).collect()).unwrap()
}

/// The choice of a policy, or why there is none.
fn choice(policy: &str, base: &Path) -> Result<usize, String> {
    let set = load_governor(policy.parse().unwrap(), base, false).map_err(|e| e.to_string())?;
    let mut governor = Governor::new(&set.idle().unwrap(), &states(), TickRate::HZ_250);
    let state = governor.select(&IdleQuery::default()).state;
    governor
        .failure_reason()
        .map_or(Ok(state), |why| Err(why.to_owned()))
}

/// A governor whose `select()` has this body, after these lines.
fn c_code(before: &str, body: &str) -> String {
    format!(
        "#include <linux/cpuidle.h>\n#include <linux/module.h>\n{before}\n\
         static int first(struct cpuidle_driver *d, struct cpuidle_device *v, bool *stop)\n\
         {{\n{body}\n\treturn 1;\n}}\n\
         static struct cpuidle_governor it = {{ .name = \"it\", .select = first }};\n\
         static int __init init_it(void)\n{{\n\treturn cpuidle_register_governor(&it);\n}}\n\
         postcore_initcall(init_it);\n"
    )
}

struct Scene {
    home: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("own")).unwrap();
        fs::write(home.path().join("secret"), format!("{SECRET}\n")).unwrap();
        fs::write(home.path().join("secret.c"), format!("{SECRET}\n")).unwrap();
        Self { home }
    }

    fn own(&self) -> PathBuf {
        self.home.path().join("own")
    }

    fn secret(&self) -> String {
        self.home.path().join("secret").display().to_string()
    }

    /// What runs if something escapes writes here.
    fn mark(&self) -> PathBuf {
        self.home.path().join("mark")
    }

    fn of_c(&self, text: &str) -> Result<usize, String> {
        fs::write(self.own().join("x.c"), text).unwrap();
        choice("c:x.c", &self.own())
    }

    fn is_intact(&self) -> bool {
        !self.mark().exists()
    }
}

/// `syscall` with up to three arguments.
#[cfg(target_arch = "x86_64")]
const CALL: &str = "static long call(long n, long a, long b, long c)\n{\n\tlong r;\n\
    \t__asm__ volatile(\"xor %%r10, %%r10\\n\\txor %%r8, %%r8\\n\\txor %%r9, %%r9\\n\\tsyscall\" : \"=a\"(r) : \"a\"(n), \"D\"(a), \"S\"(b), \"d\"(c) \
    : \"rcx\", \"r8\", \"r9\", \"r10\", \"r11\", \"memory\");\n\treturn r;\n}\n";

#[cfg(target_arch = "x86_64")]
#[test]
fn system_calls_end_it() {
    if !has_gcc() {
        return;
    }
    let scene = Scene::new();
    let mark = scene.mark().display().to_string();
    for body in [
        format!("call(2, (long)\"{mark}\", 0101, 0644);"),
        "call(57, 0, 0, 0);".to_owned(),
        "call(59, (long)\"/bin/true\", 0, 0);".to_owned(),
        "call(41, 2, 1, 0);".to_owned(),
        "call(9, 0, 4096, 7);".to_owned(),
        "call(101, 0, 0, 0);".to_owned(),
        "call(62, call(39, 0, 0, 0), 9, 0);".to_owned(),
        "call(157, 22, 0, 0);".to_owned(),
    ] {
        let why = scene.of_c(&c_code(CALL, &body)).unwrap_err();
        assert!(why.contains("a governor may only compute"), "{body}: {why}");
    }
    // In a start function it is the same.
    let early = "static int early(void) { call(57, 0, 0, 0); return 0; }\n";
    let text = c_code(&format!("{CALL}{early}"), "").replace(
        "return cpuidle_register_governor(&it);",
        "early(); return cpuidle_register_governor(&it);",
    );
    let why = scene.of_c(&text).unwrap_err();
    assert!(why.contains("a governor may only compute"), "{why}");
    assert!(scene.is_intact());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn nothing_runs_before_it_is_confined() {
    if !has_gcc() {
        return;
    }
    let scene = Scene::new();
    let mark = scene.mark().display().to_string();
    let evil =
        format!("{CALL}static void evil(void) {{ call(2, (long)\"{mark}\", 0101, 0644); }}\n");
    let entry = |section: &str| {
        format!(
            "{evil}static void (*const early)(void) __attribute__((used, section(\"{section}\"))) = evil;\n"
        )
    };
    for (before, says) in [
        (entry(".preinit_array"), "before it is called"),
        (entry(".init_array"), "before it is called"),
        (entry(".ctors"), "before it is called"),
        (entry(".fini_array"), "at the end"),
        (
            format!("{evil}__attribute__((constructor)) static void c(void) {{ evil(); }}\n"),
            "before it is called",
        ),
        (
            format!(
                "{evil}static int one(void) {{ return 1; }}\n\
                 static void *pick(void) {{ evil(); return one; }}\n\
                 int two(void) __attribute__((ifunc(\"pick\")));\n\
                 int (*const used_two)(void) = two;\n"
            ),
            "IFUNC",
        ),
        (
            "static __thread int mine;\nint *at(void) { return &mine; }\n".to_owned(),
            "__thread",
        ),
    ] {
        let why = scene.of_c(&c_code(&before, "")).unwrap_err();
        assert!(why.contains(says), "{before}: {why}");
        assert!(scene.is_intact(), "{before}");
    }
    // Functions that libraries have are its own business, and those of the program around it cannot be taken.
    for name in [
        "prctl",
        "open",
        "signal",
        "setitimer",
        "main",
        "_start",
        "_init",
    ] {
        let before = format!("{evil}long {name}(void) {{ evil(); return 0; }}\n");
        assert_eq!(scene.of_c(&c_code(&before, "")), Ok(1), "{name}");
    }
    for name in ["memset", "wp_serve", "wp_die"] {
        let before = format!(
            "{evil}long {name}_(void) __asm__(\"{name}\");\nlong {name}_(void) {{ evil(); return 0; }}\n"
        );
        let why = scene.of_c(&c_code(&before, "")).unwrap_err();
        assert!(why.contains("multiple definition"), "{name}: {why}");
    }
    // Another section in the middle of a function.
    let switched =
        "__asm__(\".section .init,\\\"ax\\\"\\n\\tmov $57, %eax\\n\\tsyscall\\n\\t.text\");\n";
    assert_eq!(scene.of_c(&c_code(switched, "")), Ok(1));
    let interpreter =
        "__asm__(\".section .interp,\\\"a\\\"\\n\\t.asciz \\\"/bin/sh\\\"\\n\\t.text\");\n";
    let why = scene.of_c(&c_code(interpreter, ""));
    assert!(
        why == Ok(1) || why.clone().is_err_and(|why| why.contains("dynamic loader")),
        "{why:?}"
    );
    assert!(scene.is_intact());
}

#[test]
fn the_compiler_reads_nothing_outside() {
    if !has_gcc() {
        return;
    }
    let scene = Scene::new();
    let secret = scene.secret();
    fs::write(scene.own().join("inside.h"), "#define INSIDE 1\n").unwrap();
    symlink("../secret", scene.own().join("linked.h")).unwrap();
    symlink("../secret.c", scene.own().join("linked.c")).unwrap();
    for (before, says) in [
        (format!("#include \"{secret}\""), "outside of its folder"),
        (format!("#include <{secret}>"), "outside of its folder"),
        (
            format!("#if 0\n#include \"{secret}\"\n#endif"),
            "outside of its folder",
        ),
        ("#include \"../secret\"".to_owned(), "outside of its folder"),
        (
            "#include <linux/../../secret>".to_owned(),
            "outside of its folder",
        ),
        (
            "#include \"linked.h\"".to_owned(),
            "is a link out of its folder",
        ),
        (
            format!("#define WHERE \"{secret}\"\n#include WHERE"),
            "does not compile",
        ),
        (format!("#inc\\\nlude \"{secret}\""), "does not compile"),
        (format!("%:include \"{secret}\""), "does not compile"),
        (format!("#include_next <{secret}>"), "does not compile"),
        (
            "#include </usr/include/stdio.h>".to_owned(),
            "outside of its folder",
        ),
        (
            "#define WHERE </usr/include/stdio.h>\n#include WHERE".to_owned(),
            "does not compile",
        ),
        (
            "#define WHERE </usr/include/asm-generic/errno-base.h>\n#include WHERE".to_owned(),
            "outside of its folder",
        ),
        (
            "#include <stdio.h>\n#include \"/dev/zero\"".to_owned(),
            "outside of its folder",
        ),
        (
            format!("__asm__(\".incbin \\\"{secret}\\\"\");"),
            "does not compile",
        ),
        (
            format!("__asm__(\".include \\\"{secret}\\\"\");"),
            "does not compile",
        ),
        (
            "__asm__(\".incbin \\\"/usr/bin/env\\\"\");".to_owned(),
            ".incbin",
        ),
        (
            "__asm__(\".incbin \\\"kernel_standin.h\\\"\");".to_owned(),
            ".incbin",
        ),
        (
            format!("#line 1 \"{secret}\"\nint broken = ;"),
            "does not compile",
        ),
        (format!("#embed \"{secret}\""), "does not compile"),
        (
            format!("#pragma GCC dependency \"{secret}\""),
            "does not compile",
        ),
    ] {
        let why = scene.of_c(&c_code(&before, "")).unwrap_err();
        assert!(why.contains(says), "{before}: {why}");
        assert!(!why.contains("hunter2"), "{before}: {why}");
    }
    let sees =
        format!("#if __has_include(\"{secret}\")\n#define SEEN 2\n#else\n#define SEEN 1\n#endif\n");
    let why = scene.of_c(&c_code(&sees, "\treturn SEEN;")).unwrap_err();
    assert!(why.contains("Permission denied"), "{why}");
    let inside = "#include \"inside.h\"\n";
    assert_eq!(scene.of_c(&c_code(inside, "\treturn INSIDE;")), Ok(1));
    for (policy, says) in [
        ("c:linked.c", "is a link out of its folder"),
        ("c:../secret", "is no C file"),
    ] {
        let why = choice(policy, &scene.own()).unwrap_err();
        assert!(
            why.contains(says) && !why.contains("hunter2"),
            "{policy}: {why}"
        );
    }
}

#[test]
fn what_a_kernel_cannot_have_is_refused() {
    if !has_gcc() {
        return;
    }
    let scene = Scene::new();
    for (before, body, says) in [
        (
            "static volatile double share;",
            "\tshare = share * 1.5;",
            "floating point",
        ),
        (
            "float half(float x) { return x / 2; }",
            "",
            "floating point",
        ),
        (
            "static volatile char much[8ULL << 30];",
            "\tmuch[v->cpu] = 1;",
            "compile",
        ),
        (
            "static volatile char much[100 << 20];",
            "\tmuch[v->last_residency_ns] = 1;",
            "MiB are the most",
        ),
        ("", "\treturn 99;", "it chose idle state 99"),
        ("", "\tfor (;;)\n\t\tbarrier();", "loop without an end"),
        (
            "static int deep(int n) { volatile char a[4096]; a[0] = n; return n ? deep(n + 1) + a[0] : 0; }",
            "\treturn deep(1);",
            "memory that is not its own",
        ),
    ] {
        let why = scene.of_c(&c_code(before, body));
        assert!(
            why.clone().is_err_and(|why| why.contains(says)),
            "{before}{body}: {why:?}"
        );
    }
    // Warnings are shown, without what steers a terminal.
    let text = c_code(
        "",
        "\tint unused; /* \u{1b}]0;owned\u{7} \u{202e} */ if (unused)\n\t\treturn 2;",
    );
    fs::write(scene.own().join("x.c"), text).unwrap();
    let set = load_governor("c:x.c".parse().unwrap(), &scene.own(), false).unwrap();
    let warnings = set.own_governor().unwrap().warnings().unwrap();
    assert!(warnings.contains("uninitialized"), "{warnings}");
    assert!(
        !warnings.contains(['\u{1b}', '\u{7}', '\u{202e}']),
        "{warnings}"
    );
    fs::write(scene.own().join("x.c"), c_code("", "")).unwrap();
    let set = load_governor("c:x.c".parse().unwrap(), &scene.own(), false).unwrap();
    assert_eq!(set.own_governor().unwrap().warnings(), None);
}

/// Each CPU begins as one that was just booted, whatever ran in its process before.
#[test]
fn a_process_that_is_used_again_remembers_nothing() {
    if !has_gcc() {
        return;
    }
    let scene = Scene::new();
    let counts = c_code(
        "static int calls;\nstatic DEFINE_PER_CPU(int, mine);",
        "\tcalls++;\n\tmine++;\n\treturn (calls + mine) / 2 % 3;",
    );
    fs::write(scene.own().join("x.c"), counts).unwrap();
    let set = load_governor("c:x.c".parse().unwrap(), &scene.own(), false).unwrap();
    let policy = set.idle().unwrap();
    for _ in 0..3 {
        let mut cpus = [(); 40].map(|()| Governor::new(&policy, &states(), TickRate::HZ_250));
        for expected in [1, 2, 0] {
            for governor in &mut cpus {
                assert_eq!(governor.select(&IdleQuery::default()).state, expected);
                assert_eq!(governor.failure_reason(), None);
            }
        }
    }
}

/// What a script answers once it has tried something: state 2 if that went well, else 1.
fn tried(scene: &Scene, what: &str) -> Result<usize, String> {
    let text = format!(
        "if {what}; then answer=2; else answer=1; fi\n\
         while IFS=, read -r kind rest; do if [ \"$kind\" = select ]; then echo $answer,0; fi; done"
    );
    script(&scene.own(), &text);
    choice("exec:x", &scene.own())
}

#[test]
fn a_program_sees_the_system_and_its_folder() {
    let scene = Scene::new();
    fs::write(scene.own().join("data"), "1\n").unwrap();
    let secret = scene.secret();
    let mark = scene.mark().display().to_string();
    for may in [
        "cat data >/dev/null",
        "ls /usr >/dev/null 2>&1",
        "head -c 1 /dev/urandom >/dev/null",
    ] {
        assert_eq!(tried(&scene, may), Ok(2), "{may}");
    }
    for may_not in [
        &format!("cat {secret} 2>/dev/null >/dev/null"),
        "cat /etc/passwd 2>/dev/null >/dev/null",
        &format!("touch {mark} 2>/dev/null"),
        "touch new 2>/dev/null",
        "chmod 777 data 2>/dev/null",
        "touch -d 2001-01-01 data 2>/dev/null",
        "ls / >/dev/null 2>&1",
        &format!("ln -s {secret} here 2>/dev/null"),
        &format!("kill -0 {} 2>/dev/null", std::process::id()),
        "unshare -U true 2>/dev/null",
        "nsenter -n -t 1 true 2>/dev/null",
        "cat /proc/1/environ 2>/dev/null >/dev/null",
    ] {
        assert_eq!(tried(&scene, may_not), Ok(1), "{may_not}");
    }
    assert!(scene.is_intact());
    if Command::new("python3").arg("--version").output().is_ok() {
        for what in [
            "socket.socket()",
            "socket.socket(socket.AF_UNIX)",
            "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
        ] {
            let tries = format!("python3 -c 'import socket; {what}' 2>/dev/null");
            assert_eq!(tried(&scene, &tries), Ok(1), "{what}");
        }
    }
}

#[test]
fn what_leaves_its_group_ends_with_it() {
    let scene = Scene::new();
    let mark = format!("{}.25", 800_000 + std::process::id());
    script(
        &scene.own(),
        &format!(
            "setsid sleep {mark} &\nsetsid sh -c 'setsid sleep {mark}' &\nread tick\necho 0,0\nread more\nsleep {mark}"
        ),
    );
    let set = load_governor("exec:x".parse().unwrap(), &scene.own(), false).unwrap();
    let mut governor = Governor::new(&set.idle().unwrap(), &states(), TickRate::HZ_250);
    governor.select(&IdleQuery::default());
    assert_eq!(governor.failure_reason(), None);
    wait(&mut || running(&mark) >= 3);
    drop(governor);
    wait(&mut || running(&mark) == 0);
}

#[test]
fn what_is_no_program_is_said_plainly() {
    let scene = Scene::new();
    fs::write(scene.own().join("x.py"), "").unwrap();
    let why = choice("exec:python3 x.py", &scene.own()).unwrap_err();
    assert!(why.contains("no arguments"), "{why}");
    let why = choice("exec:missing.py", &scene.own()).unwrap_err();
    assert!(
        why.contains("there is no file") && why.contains("own/missing.py"),
        "{why}"
    );
}
