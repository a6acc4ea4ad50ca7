/** What something in a workspace is. */

export type FileKind = 'file' | 'folder' | 'link' | 'other';

interface Entry {
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
}

export function kindOf(entry: Entry): FileKind {
  return entry.isFile() ? 'file' : entry.isDirectory() ? 'folder' : entry.isSymbolicLink() ? 'link' : 'other';
}
