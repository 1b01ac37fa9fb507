package weir

// Grants are what the job allows this plugin.
type Grants struct{ memory *MemoryFolders }

// Folder gives the folder that the job granted under this name (grants.folders). Nothing is asked of it yet: what is not granted
// is refused at the first use.
func (g Grants) Folder(name string) Folder { return Folder{name, g.memory} }

// Folder is a folder that the job granted. Paths are relative, with /; the empty one is the folder itself. They can't leave the
// folder: no .., no absolute path, no symbolic link. The host owns the durability rules; an error's text says why.
//
// In [SinkWriter].Write only Append and Read may be called, and an append is applied when the call returns without error.
type Folder struct {
	name   string
	memory *MemoryFolders
}

// Append appends to a file, which is made if it does not exist (its folder must).
func (f Folder) Append(path string, bytes []byte) error { return f.append(path, bytes) }

// Read gives at most limit bytes from offset; fewer at the end of the file.
func (f Folder) Read(path string, offset uint64, limit uint32) ([]byte, error) {
	return f.read(path, offset, limit)
}

// Sync makes a file's content, or a folder's entries, durable (fsync). It returns when it is.
func (f Folder) Sync(path string) error { return f.sync(path) }

// Mkdir makes a folder and its parents, durably. An existing one is no error.
func (f Folder) Mkdir(path string) error { return f.mkdir(path) }

// Rename moves a file in one atomic step that never replaces: false, and nothing done, if the target exists. Both folders are
// durable when it gives true.
func (f Folder) Rename(source, target string) (bool, error) { return f.rename(source, target) }

// Remove removes a file or an empty folder; false if there was none.
func (f Folder) Remove(path string) (bool, error) { return f.remove(path) }

// Exists says whether a file or folder is there.
func (f Folder) Exists(path string) (bool, error) { return f.exists(path) }

// List gives the names in a folder, sorted; none if there is no such folder.
func (f Folder) List(path string) ([]string, error) { return f.list(path) }
