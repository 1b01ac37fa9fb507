// Granted folders in memory that can lose power: what was not synced is then gone. A crash keeps of a file the bytes at its last
// sync, and of a folder the entries at its last sync; a rename makes both folders durable, and mkdir what it made, as the contract
// says.

import { decodeText } from './text.js';

class File {
  constructor() {
    this.now = [];
    this.durable = [];
  }

  sync() {
    this.durable = [...this.now];
  }

  crash() {
    this.now = [...this.durable];
  }
}

class FolderNode {
  constructor() {
    this.now = new Map();
    this.durable = new Map();
  }

  sync() {
    this.durable = new Map(this.now);
  }

  crash() {
    this.now = new Map(this.durable);
  }
}

/** Every granted folder of a test. */
export class MemoryFolders {
  constructor(...grants) {
    this.grants = new Map(grants.map((grant) => [grant, new FolderNode()]));
    this.nodes = [...this.grants.values()];
    /** True while `write` runs: then only append and read are allowed. */
    this.writing = false;
    /** Calls that still succeed; undefined: all. */
    this.left = undefined;
  }

  /** Lets this many more calls succeed; then every call fails until `crash`. */
  failAfter(calls) {
    this.left = calls;
  }

  /** Loses power: what was not synced is gone. Calls work again if they failed before. */
  crash() {
    this.left = undefined;
    for (const node of this.nodes) node.crash();
  }

  /** Every file under a grant with its content as text, by path. */
  files(grant) {
    const found = {};
    const walk = (prefix, folder) => {
      for (const [name, node] of [...folder.now].sort(([a], [b]) => (a < b ? -1 : 1))) {
        if (node instanceof File) found[prefix + name] = decodeText(Uint8Array.from(node.now));
        else walk(`${prefix}${name}/`, node);
      }
    };
    walk('', this.root(grant));
    return found;
  }

  root(grant) {
    const root = this.grants.get(grant);
    if (root === undefined) throw new Error(`no folder is granted as '${grant}'`);
    return root;
  }

  enter(what, path, inWrite) {
    if (this.writing && !inWrite) throw `${what} ${path}: only append and read may be called in write`;
    if (this.left === 0) throw `${what} ${path}: the disk is gone`;
    if (this.left !== undefined) this.left -= 1;
    if (path.startsWith('/') || path.split('/').includes('..')) throw `${what} ${path}: the path leaves the folder`;
  }

  find(grant, path) {
    if (!this.grants.has(grant)) throw `no folder is granted as '${grant}'`;
    let at = this.root(grant);
    for (const part of path.split('/').filter((part) => part !== '')) {
      at = at instanceof FolderNode ? at.now.get(part) : undefined;
    }
    return at;
  }

  /** The folder that holds `path`, and the last part of `path`. */
  parent(grant, path) {
    const cut = path.lastIndexOf('/');
    const folder = this.find(grant, cut < 0 ? '' : path.slice(0, cut));
    if (!(folder instanceof FolderNode)) throw `${path}: there is no such folder`;
    return [folder, path.slice(cut + 1)];
  }

  make(node) {
    this.nodes.push(node);
    return node;
  }

  /** The contract's interface `files`. */
  functions() {
    return {
      append: (grant, path, bytes) => {
        this.enter('append', path, true);
        let file = this.find(grant, path);
        if (file === undefined) {
          const [folder, name] = this.parent(grant, path);
          folder.now.set(name, (file = this.make(new File())));
        }
        if (!(file instanceof File)) throw `append ${path}: it is a folder`;
        file.now.push(...bytes);
      },
      read: (grant, path, offset, limit) => {
        this.enter('read', path, true);
        const file = this.find(grant, path);
        if (!(file instanceof File)) throw `read ${path}: there is no such file`;
        return Uint8Array.from(file.now.slice(Number(offset), Number(offset) + limit));
      },
      sync: (grant, path) => {
        this.enter('sync', path, false);
        const node = this.find(grant, path);
        if (node === undefined) throw `sync ${path}: there is no such file or folder`;
        node.sync();
      },
      mkdir: (grant, path) => {
        this.enter('mkdir', path, false);
        const parts = path.split('/');
        parts.forEach((_, i) => {
          const own = parts.slice(0, i + 1).join('/');
          const [folder, name] = this.parent(grant, own);
          if (this.find(grant, own) === undefined) folder.now.set(name, this.make(new FolderNode()));
          folder.sync();
        });
      },
      rename: (grant, source, target) => {
        this.enter('rename', source, false);
        const node = this.find(grant, source);
        if (node === undefined) throw `rename ${source}: there is no such file`;
        if (this.find(grant, target) !== undefined) return false;
        const [from, old] = this.parent(grant, source);
        const [to, name] = this.parent(grant, target);
        from.now.delete(old);
        to.now.set(name, node);
        from.sync();
        to.sync();
        return true;
      },
      remove: (grant, path) => {
        this.enter('remove', path, false);
        const node = this.find(grant, path);
        if (node === undefined) return false;
        if (node instanceof FolderNode && node.now.size > 0) throw `remove ${path}: the folder is not empty`;
        const [folder, name] = this.parent(grant, path);
        return folder.now.delete(name);
      },
      exists: (grant, path) => {
        this.enter('exists', path, false);
        return this.find(grant, path) !== undefined;
      },
      list: (grant, path) => {
        this.enter('list', path, false);
        const folder = this.find(grant, path);
        if (folder instanceof File) throw `list ${path}: it is a file`;
        return [...(folder?.now.keys() ?? [])].sort();
      },
    };
  }
}
