//! Granted folders in memory that can lose power: what was not synced is then gone.
//!
//! Invariant: a crash keeps of a file the bytes at its last sync, and of a folder the entries at its last sync; a rename
//! makes both folders durable, and mkdir what it made, as the contract says.

use crate::files::Folders;
use crate::host::Grants;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Every granted folder of a test. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryFolders(Rc<RefCell<Disk>>);

#[derive(Debug, Default)]
struct Disk {
    grants: BTreeMap<String, NodeId>,
    nodes: Vec<Node>,
    /// True while `write` runs: then only append and read are allowed.
    writing: bool,
    /// Fails this many calls from now on, counting down: the call at 0 and every later one fails.
    fail_after: Option<usize>,
}

type NodeId = usize;

/// A file or folder: as it is, and as a crash leaves it.
#[derive(Debug)]
enum Node {
    File { now: Vec<u8>, durable: Vec<u8> },
    Folder { now: BTreeMap<String, NodeId>, durable: BTreeMap<String, NodeId> },
}

impl MemoryFolders {
    /// Folders under these grants, all empty.
    pub fn new(grants: &[&str]) -> Self {
        let folders = MemoryFolders::default();
        for &grant in grants {
            let mut disk = folders.0.borrow_mut();
            let root = disk.add_folder();
            disk.grants.insert(grant.to_owned(), root);
        }
        folders
    }

    /// The grants to open a sink or operator with.
    pub fn grants(&self) -> Grants {
        Grants { folders: self.clone(), ..Grants::default() }
    }

    /// Loses power: what was not synced is gone. Calls work again if they failed before.
    pub fn crash(&self) {
        let mut disk = self.0.borrow_mut();
        disk.fail_after = None;
        for node in &mut disk.nodes {
            match node {
                Node::File { now, durable } => now.clone_from(durable),
                Node::Folder { now, durable } => now.clone_from(durable),
            }
        }
    }

    /// Lets this many more calls succeed; then every call fails until [`crash`](Self::crash). For tests that stop a sink at
    /// each of its steps.
    pub fn fail_after(&self, calls: usize) {
        self.0.borrow_mut().fail_after = Some(calls);
    }

    /// Says that a sink's `write` runs (or no longer runs): then only append and read are allowed.
    pub fn set_writing(&self, writing: bool) {
        self.0.borrow_mut().writing = writing;
    }

    /// Every file under a grant with its content, by path.
    pub fn files(&self, grant: &str) -> BTreeMap<String, Vec<u8>> {
        let (disk, mut found) = (self.0.borrow(), BTreeMap::new());
        let mut open = vec![(String::new(), disk.grants[grant])];
        while let Some((path, id)) = open.pop() {
            match &disk.nodes[id] {
                Node::File { now, .. } => {
                    found.insert(path, now.clone());
                }
                Node::Folder { now, .. } => {
                    let join = |name: &String| if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                    open.extend(now.iter().map(|(name, &id)| (join(name), id)));
                }
            }
        }
        found
    }
}

impl Disk {
    fn add_folder(&mut self) -> NodeId {
        self.nodes.push(Node::Folder { now: BTreeMap::new(), durable: BTreeMap::new() });
        self.nodes.len() - 1
    }

    /// Counts a call, and refuses what is not allowed now.
    fn enter(&mut self, in_write: bool, what: &str, path: &str) -> Result<(), String> {
        if self.writing && !in_write {
            return Err(format!("{what} {path}: only append and read may be called in write"));
        }
        match &mut self.fail_after {
            Some(0) => return Err(format!("{what} {path}: the disk is gone")),
            Some(left) => *left -= 1,
            None => {}
        }
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            return Err(format!("{what} {path}: the path leaves the folder"));
        }
        Ok(())
    }

    fn root(&self, grant: &str) -> Result<NodeId, String> {
        self.grants.get(grant).copied().ok_or_else(|| format!("no folder is granted as '{grant}'"))
    }

    fn find(&self, grant: &str, path: &str) -> Result<Option<NodeId>, String> {
        let mut at = self.root(grant)?;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let Node::Folder { now, .. } = &self.nodes[at] else { return Ok(None) };
            let Some(&next) = now.get(part) else { return Ok(None) };
            at = next;
        }
        Ok(Some(at))
    }

    /// The entries of the folder that holds `path`, and the last part of `path`.
    fn parent<'p>(&mut self, grant: &str, path: &'p str) -> Result<(&mut BTreeMap<String, NodeId>, &'p str), String> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let id = self.find(grant, folder)?.ok_or_else(|| format!("{path}: there is no folder '{folder}'"))?;
        match &mut self.nodes[id] {
            Node::Folder { now, .. } => Ok((now, name)),
            Node::File { .. } => Err(format!("{path}: '{folder}' is a file")),
        }
    }

    fn make_durable(&mut self, id: NodeId) {
        match &mut self.nodes[id] {
            Node::File { now, durable } => durable.clone_from(now),
            Node::Folder { now, durable } => durable.clone_from(now),
        }
    }
}

impl Folders for MemoryFolders {
    fn append(&self, grant: &str, path: &str, bytes: &[u8]) -> Result<(), String> {
        let mut disk = self.0.borrow_mut();
        disk.enter(true, "append", path)?;
        let id = match disk.find(grant, path)? {
            Some(id) => id,
            None => {
                let id = disk.nodes.len();
                let (entries, name) = disk.parent(grant, path)?;
                entries.insert(name.to_owned(), id);
                disk.nodes.push(Node::File { now: Vec::new(), durable: Vec::new() });
                id
            }
        };
        match &mut disk.nodes[id] {
            Node::File { now, .. } => {
                now.extend_from_slice(bytes);
                Ok(())
            }
            Node::Folder { .. } => Err(format!("append {path}: it is a folder")),
        }
    }

    fn read(&self, grant: &str, path: &str, offset: u64, limit: u32) -> Result<Vec<u8>, String> {
        let mut disk = self.0.borrow_mut();
        disk.enter(true, "read", path)?;
        match disk.find(grant, path)?.map(|id| &disk.nodes[id]) {
            Some(Node::File { now, .. }) => {
                let start = now.len().min(offset as usize);
                Ok(now[start..now.len().min(start + limit as usize)].to_vec())
            }
            Some(Node::Folder { .. }) => Err(format!("read {path}: it is a folder")),
            None => Err(format!("read {path}: there is no such file")),
        }
    }

    fn sync(&self, grant: &str, path: &str) -> Result<(), String> {
        let mut disk = self.0.borrow_mut();
        disk.enter(false, "sync", path)?;
        let id = disk.find(grant, path)?.ok_or_else(|| format!("sync {path}: there is no such file or folder"))?;
        disk.make_durable(id);
        Ok(())
    }

    fn mkdir(&self, grant: &str, path: &str) -> Result<(), String> {
        let mut disk = self.0.borrow_mut();
        disk.enter(false, "mkdir", path)?;
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let path = &path[..end];
            if disk.find(grant, path)?.is_none() {
                let id = disk.add_folder();
                let (entries, name) = disk.parent(grant, path)?;
                entries.insert(name.to_owned(), id);
            }
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let id = disk.find(grant, folder)?.expect("the folder is in it");
            disk.make_durable(id);
        }
        Ok(())
    }

    fn rename(&self, grant: &str, source: &str, target: &str) -> Result<bool, String> {
        let mut disk = self.0.borrow_mut();
        disk.enter(false, "rename", source)?;
        let id = disk.find(grant, source)?.ok_or_else(|| format!("rename {source}: there is no such file"))?;
        if disk.find(grant, target)?.is_some() {
            return Ok(false);
        }
        let (entries, name) = disk.parent(grant, target)?;
        entries.insert(name.to_owned(), id);
        let (entries, name) = disk.parent(grant, source)?;
        entries.remove(name);
        for path in [source, target] {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let id = disk.find(grant, folder)?.expect("the file was in it");
            disk.make_durable(id);
        }
        Ok(true)
    }

    fn remove(&self, grant: &str, path: &str) -> Result<bool, String> {
        let mut disk = self.0.borrow_mut();
        disk.enter(false, "remove", path)?;
        let Some(id) = disk.find(grant, path)? else { return Ok(false) };
        if matches!(&disk.nodes[id], Node::Folder { now, .. } if !now.is_empty()) {
            return Err(format!("remove {path}: the folder is not empty"));
        }
        let (entries, name) = disk.parent(grant, path)?;
        entries.remove(name);
        Ok(true)
    }

    fn exists(&self, grant: &str, path: &str) -> Result<bool, String> {
        let mut disk = self.0.borrow_mut();
        disk.enter(false, "exists", path)?;
        Ok(disk.find(grant, path)?.is_some())
    }

    fn list(&self, grant: &str, path: &str) -> Result<Vec<String>, String> {
        let mut disk = self.0.borrow_mut();
        disk.enter(false, "list", path)?;
        match disk.find(grant, path)?.map(|id| &disk.nodes[id]) {
            Some(Node::Folder { now, .. }) => Ok(now.keys().cloned().collect()),
            Some(Node::File { .. }) => Err(format!("list {path}: it is a file")),
            None => Ok(Vec::new()),
        }
    }
}
