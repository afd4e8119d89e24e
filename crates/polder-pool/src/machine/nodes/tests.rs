use std::ptr;

use super::*;

/// A made-up `/sys/devices/system/node`: the list of nodes, and each with its cores, its memory and
/// its distances.
fn machine(online: &str, nodes: &[(u32, &str, u64, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("online"), online).unwrap();
    for (node, cores, kib, distances) in nodes {
        let folder = dir.path().join(format!("node{node}"));
        fs::create_dir(&folder).unwrap();
        let meminfo = format!(
            "Node {node} MemTotal:       {kib} kB\nNode {node} MemFree:        {} kB\n",
            kib / 2
        );
        fs::write(folder.join("cpulist"), cores).unwrap();
        fs::write(folder.join("meminfo"), meminfo).unwrap();
        fs::write(folder.join("distance"), distances).unwrap();
    }
    dir
}

/// Of each node its number, and the cores up to `cores` that count to it.
fn homes(nodes: &Nodes, cores: usize) -> Vec<(u16, Vec<usize>)> {
    let at = |place| (0..cores).filter(|core| nodes.cores.of(*core).index() == place).collect();
    nodes.ids().enumerate().map(|(place, node)| (node.get(), at(place))).collect()
}

fn read(dir: &tempfile::TempDir) -> Option<Nodes> {
    Told::read(dir.path()).nodes(|_| true, |_| true)
}

#[test]
fn nodes_have_the_cores_that_the_system_tells() {
    let dir =
        machine("0-1\n", &[(0, "0-1,4\n", 8 << 20, "10 21"), (1, "2-3,5\n", 8 << 20, "21 10")]);
    let nodes = read(&dir).unwrap();
    assert_eq!(homes(&nodes, 6), [(0, vec![0, 1, 4]), (1, vec![2, 3, 5])]);
    // Numbers with holes; core 3 is off.
    let dir = machine("0,4-5", &[(0, "0", 9, ""), (4, "1-2", 9, ""), (5, "4-5", 9, "")]);
    let nodes = read(&dir).unwrap();
    assert_eq!(homes(&nodes, 6), [(0, vec![0]), (4, vec![1, 2, 3]), (5, vec![4, 5])]);
}

#[test]
fn a_node_counts_if_threads_can_be_at_home_there() {
    let dir = machine(
        "0-4",
        &[
            (0, "0-1", 4 << 20, "10 20 40 20 30"),
            // Without memory, and nearest to node 2.
            (1, "2-3", 0, "40 10 20 30 30"),
            (2, "4-5", 4 << 20, "40 20 10 30 20"),
            // Without cores.
            (3, "", 64 << 20, "20 30 30 10 30"),
            (4, "6", 4 << 20, "30 30 20 30 10"),
        ],
    );
    let all = read(&dir).unwrap();
    assert_eq!(homes(&all, 7), [(0, vec![0, 1]), (2, vec![2, 3, 4, 5]), (4, vec![6])]);
    let told = Told::read(dir.path());
    // No memory of node 2 for us: its cores count to the nearest other.
    let some = told.nodes(|node| node.get() != 2, |_| true).unwrap();
    assert_eq!(homes(&some, 7), [(0, vec![0, 1]), (4, vec![2, 3, 4, 5, 6])]);
    // No core of node 0, or none but of one.
    let some = told.nodes(|_| true, |core| core > 3).unwrap();
    assert_eq!(homes(&some, 7), [(2, vec![2, 3, 4, 5]), (4, vec![0, 1, 6])]);
    assert!(told.nodes(|_| true, |core| core < 2).is_none());
    assert!(told.nodes(|node| node.get() == 4, |_| true).is_none());
}

#[test]
fn what_makes_no_sense_is_one_node() {
    let two = [(0, "0", 9, ""), (1, "1", 9, "")];
    assert!(read(&machine("0-1", &two)).is_some());
    for online in ["", "x", "1", "0-", "-", "5-3", "99999999999", "3,1"] {
        assert!(read(&machine(online, &two)).is_none(), "{online:?}");
    }
    // Node 65535 is none, and nor are those without a folder.
    assert_eq!(read(&machine("0-65535", &two)).unwrap().nodes.len(), 2);
    for cores in ["", "garbage", "0", "-1", "70000", "0-70000"] {
        assert!(read(&machine("0-1", &[two[0], (1, cores, 9, "")])).is_none(), "{cores:?}");
    }
    assert!(read(&machine("0-1", &[two[0], (1, "1-65535", 9, "")])).is_some());
    for meminfo in ["", "Node 1 MemTotal: kB", "MemTotal", "Node 1 MemTotal: -4 kB"] {
        let dir = machine("0-1", &two);
        fs::write(dir.path().join("node1/meminfo"), meminfo).unwrap();
        assert!(read(&dir).is_none(), "{meminfo:?}");
    }
    let many: Vec<_> = (0..65).map(|node| (node, node.to_string())).collect();
    let many: Vec<_> = many.iter().map(|(node, cores)| (*node, &**cores, 9, "")).collect();
    assert!(read(&machine("0-64", &many)).is_none());
    assert_eq!(read(&machine("0-63", &many)).unwrap().nodes.len(), 64);
    assert!(Told::read(&machine("", &[]).path().join("nowhere")).0.is_empty());
}

#[test]
fn frames_are_cut_where_huge_pages_end_by_the_memory_of_nodes() {
    let cut = |frames, kib: &[u64]| {
        let (nodes, ends) = Nodes::invented(&[0], kib).cut(frames, PageSize::MIN);
        assert_eq!(nodes.nodes.len(), ends.len());
        ends
    };
    assert_eq!(cut(10_000, &[5, 5]), [9 * 512 - 1, 10_000]);
    assert_eq!(cut(10_000, &[5, 10, 5]), [4 * 512 - 1, 14 * 512 - 1, 10_000]);
    // A piece for each, or one for all; the place of frame 0 is part of the first piece.
    assert_eq!(cut(1023, &[5, 5]), [511, 1023]);
    assert_eq!(cut(1022, &[5, 5]), [1022]);
    assert_eq!(cut(10_000, &[1, 100]), [10_000]);
    assert_eq!(cut(10_000, &[u64::MAX, u64::MAX]), [9 * 512 - 1, 10_000]);
    assert_eq!(cut(0, &[5, 5]), [0]);
    assert_eq!(cut(10_000, &[5]), [10_000]);
    let (_, ends) = Nodes::invented(&[0], &[5, 5]).cut(100, PageSize::MAX);
    assert_eq!(ends, [31, 100]);
    let (one, ends) = Nodes::one().cut(10_000, PageSize::MIN);
    assert_eq!((one.nodes.len(), ends), (1, vec![10_000]));
}

#[test]
fn this_machine_has_nodes() {
    let nodes = Nodes::of_machine();
    assert!(nodes.here() < nodes.nodes.len());
    assert!(nodes.nodes.len() == 1 || nodes.ids().is_sorted());
}

#[test]
fn a_thread_that_was_given_a_policy_is_left_alone() {
    let body = || {
        if policy::permitted().is_none() {
            println!("left out: the kernel does not tell of memory policies");
            return;
        }
        let (mode, node_0, bits): (_, libc::c_ulong, _) = (libc::MPOL_INTERLEAVE, 1, 2);
        // SAFETY: the mask is as long as is said; the policy ends with the thread.
        let done =
            unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, ptr::from_ref(&node_0), bits) };
        assert_eq!(done, 0);
        assert!(policy::permitted().is_none());
    };
    std::thread::spawn(body).join().unwrap();
}
