/** The machine's Python, looked up once a process: a new session must not wait for the disk. */

import { readEnvironment } from '../environment.ts';
import { findPython } from '../interpreter/find-python.ts';

const located = new Map<string | undefined, Promise<string>>();

export function locatePython(named: string | undefined): Promise<string> {
  const wanted = named ?? readEnvironment().python;
  let found = located.get(wanted);
  if (!found) {
    found = findPython(wanted);
    located.set(wanted, found);
    found.catch(() => located.delete(wanted));
  }
  return found;
}
