use wakepath_policies::idle::{IdlePolicy, KernelVersion};
fn main() {
    let j = wakepath_workloads::fio::load("/tmp/b.fio").unwrap();
    let m0 = wakepath_hardware::Machine::find("rk3399").unwrap();
    for c in [48.0, 52.0, 56.0, 60.0, 64.0, 68.0] {
        for w in [9.0, 12.5, 16.0] {
            let mut m = m0.clone();
            m.io_path.kcycles_per_io.value = c;
            m.idle_state[1].cold_start_kcycles.value = w;
            m.idle_state[2].cold_start_kcycles.value = w;
            m.drive.read_service_us.value = 75.0 + (68.0 - c) * (0.436 * 4.07 + 0.564 * 0.6);
            let run = |idle, b| wakepath_sim::try_it(&m, &j, &idle, b, 1).iops;
            let a = [
                run(IdlePolicy::Menu(KernelVersion::V6_1), true),
                run(IdlePolicy::Menu(KernelVersion::V6_1), false),
                run(IdlePolicy::Teo(KernelVersion::V6_12), true),
                run(IdlePolicy::Teo(KernelVersion::V6_12), false),
            ];
            let p = [2622.0, 2097.0, 4478.0, 3733.0];
            print!("C {c} W {w} D {:.1}: ", m.drive.read_service_us.value);
            for (a, p) in a.iter().zip(p) {
                print!("{a:.0} ({:+.1}%) ", (a / p - 1.0) * 100.0);
            }
            println!();
        }
    }
}
