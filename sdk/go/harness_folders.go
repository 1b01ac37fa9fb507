package weir

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MemoryFolders are the granted folders of a test, in memory. They can lose power: what was not synced is then gone.
//
// A crash keeps of a file the bytes at its last sync, and of a folder the entries at its last sync; a rename makes both folders
// durable, and Mkdir what it made, as the contract says.
type MemoryFolders struct {
	grants map[string]*node
	// True while Write runs: then only Append and Read are allowed.
	writing bool
	// How many more calls succeed; negative: all.
	left int
}

// node is a file or a folder: as it is, and as a crash leaves it.
type node struct {
	folder          bool
	bytes, durable  []byte
	entries, stable map[string]*node
}

func newFolder() *node {
	return &node{folder: true, entries: map[string]*node{}, stable: map[string]*node{}}
}

// NewMemoryFolders makes folders under these grants, all empty.
func NewMemoryFolders(grants ...string) *MemoryFolders {
	m := &MemoryFolders{grants: map[string]*node{}, left: -1}
	for _, grant := range grants {
		m.grants[grant] = newFolder()
	}
	return m
}

// Grants to open a sink or operator with.
func (m *MemoryFolders) Grants() Grants { return Grants{m} }

// Crash loses power: what was not synced is gone. Calls work again if they failed before.
func (m *MemoryFolders) Crash() {
	m.left, m.writing = -1, false
	seen := map[*node]bool{}
	var crash func(*node)
	crash = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		n.bytes, n.entries = bytes.Clone(n.durable), maps.Clone(n.stable)
		for _, entry := range n.entries {
			crash(entry)
		}
	}
	for _, root := range m.grants {
		crash(root)
	}
}

// FailAfter lets this many more calls succeed; then every call fails until [MemoryFolders.Crash]. For tests that stop a sink at
// each of its steps.
func (m *MemoryFolders) FailAfter(calls int) { m.left = calls }

// Files gives every file under a grant with its content, by path.
func (m *MemoryFolders) Files(grant string) map[string]string {
	found := map[string]string{}
	var walk func(path string, n *node)
	walk = func(path string, n *node) {
		if !n.folder {
			found[path] = string(n.bytes)
		}
		for name, entry := range n.entries {
			walk(strings.TrimPrefix(path+"/"+name, "/"), entry)
		}
	}
	walk("", m.grants[grant])
	return found
}

// enter counts a call, and refuses what is not allowed now.
func (m *MemoryFolders) enter(inWrite bool, what, grant, path string) (*node, error) {
	if m == nil || m.grants[grant] == nil {
		return nil, fmt.Errorf("no folder is granted as '%s'", grant)
	}
	switch {
	case m.writing && !inWrite:
		return nil, fmt.Errorf("%s %s: only Append and Read may be called in Write", what, path)
	case m.left == 0:
		return nil, fmt.Errorf("%s %s: the disk is gone", what, path)
	case strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), ".."):
		return nil, fmt.Errorf("%s %s: the path leaves the folder", what, path)
	}
	if m.left > 0 {
		m.left--
	}
	return m.grants[grant], nil
}

// find gives what lies at a path; nil if nothing does.
func (n *node) find(path string) *node {
	for part := range strings.SplitSeq(path, "/") {
		if part == "" {
			continue
		}
		if n = n.entries[part]; n == nil {
			return nil
		}
	}
	return n
}

// parent gives the folder of a path, and the path's last part.
func (n *node) parent(path string) (*node, string, error) {
	folder, name := "", path
	if at := strings.LastIndexByte(path, '/'); at >= 0 {
		folder, name = path[:at], path[at+1:]
	}
	found := n.find(folder)
	if found == nil || !found.folder {
		return nil, "", fmt.Errorf("%s: there is no folder '%s'", path, folder)
	}
	return found, name, nil
}

func (n *node) makeDurable() { n.durable, n.stable = bytes.Clone(n.bytes), maps.Clone(n.entries) }

func (m *MemoryFolders) append(grant, path string, data []byte) error {
	root, err := m.enter(true, "append", grant, path)
	if err != nil {
		return err
	}
	file := root.find(path)
	if file == nil {
		folder, name, err := root.parent(path)
		if err != nil {
			return err
		}
		file = &node{}
		folder.entries[name] = file
	}
	if file.folder {
		return errors.New("append " + path + ": it is a folder")
	}
	file.bytes = append(file.bytes, data...)
	return nil
}

func (m *MemoryFolders) read(grant, path string, offset uint64, limit uint32) ([]byte, error) {
	root, err := m.enter(true, "read", grant, path)
	if err != nil {
		return nil, err
	}
	file := root.find(path)
	if file == nil || file.folder {
		return nil, errors.New("read " + path + ": there is no such file")
	}
	rest := file.bytes[min(offset, uint64(len(file.bytes))):]
	return bytes.Clone(rest[:min(uint64(limit), uint64(len(rest)))]), nil
}

func (m *MemoryFolders) sync(grant, path string) error {
	root, err := m.enter(false, "sync", grant, path)
	if err != nil {
		return err
	}
	found := root.find(path)
	if found == nil {
		return errors.New("sync " + path + ": there is no such file or folder")
	}
	found.makeDurable()
	return nil
}

func (m *MemoryFolders) mkdir(grant, path string) error {
	folder, err := m.enter(false, "mkdir", grant, path)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" {
			continue
		}
		if folder.entries[part] == nil {
			folder.entries[part] = newFolder()
		}
		folder.makeDurable()
		if folder = folder.entries[part]; !folder.folder {
			return errors.New("mkdir " + path + ": " + part + " is a file")
		}
	}
	return nil
}

func (m *MemoryFolders) rename(grant, source, target string) (bool, error) {
	root, err := m.enter(false, "rename", grant, source)
	if err != nil {
		return false, err
	}
	file := root.find(source)
	if file == nil {
		return false, errors.New("rename " + source + ": there is no such file")
	}
	if root.find(target) != nil {
		return false, nil
	}
	to, name, err := root.parent(target)
	if err != nil {
		return false, err
	}
	from, old, _ := root.parent(source)
	to.entries[name] = file
	delete(from.entries, old)
	from.makeDurable()
	to.makeDurable()
	return true, nil
}

func (m *MemoryFolders) remove(grant, path string) (bool, error) {
	root, err := m.enter(false, "remove", grant, path)
	if err != nil {
		return false, err
	}
	found := root.find(path)
	if found == nil {
		return false, nil
	}
	if len(found.entries) > 0 {
		return false, errors.New("remove " + path + ": the folder is not empty")
	}
	folder, name, _ := root.parent(path)
	delete(folder.entries, name)
	return true, nil
}

func (m *MemoryFolders) exists(grant, path string) (bool, error) {
	root, err := m.enter(false, "exists", grant, path)
	if err != nil {
		return false, err
	}
	return root.find(path) != nil, nil
}

func (m *MemoryFolders) list(grant, path string) ([]string, error) {
	root, err := m.enter(false, "list", grant, path)
	if err != nil {
		return nil, err
	}
	found := root.find(path)
	if found != nil && !found.folder {
		return nil, errors.New("list " + path + ": it is a file")
	}
	if found == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(found.entries)), nil
}
