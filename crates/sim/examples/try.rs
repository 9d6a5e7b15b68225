use wakepath_policies::idle::{IdlePolicy, KernelVersion};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let m = wakepath_hardware::Machine::find(&a[1]).unwrap();
    let j = wakepath_workloads::fio::load(&a[2]).unwrap();
    for idle in [
        IdlePolicy::Menu(KernelVersion::V6_1),
        IdlePolicy::Teo(KernelVersion::V6_12),
    ] {
        for boost in [true, false] {
            let t = std::time::Instant::now();
            let r = wakepath_sim::try_it(&m, &j, &idle, boost, 1);
            println!(
                "{idle:?} {boost} iops {:.0} us {:.1} mean {:.1} p99 {:.1} mhz {:.0} wall {:?}",
                r.iops,
                1e6 / r.iops,
                r.latency_us.mean,
                r.latency_us.p99,
                r.mean_mhz,
                t.elapsed()
            );
            for c in &r.cpus {
                if c.cpu == 0 || c.cpu == 4 {
                    println!("   {c:?}");
                }
            }
            for c in &r.idle_states {
                println!("   {c:?}");
            }
        }
    }
}
