/** One cache for all files of a run: Pyodide's snapshot is made, and an image is asked, once and not once a file. */

import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';

export default function setup(project: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'cella-cache-'));
  chmodSync(folder, 0o711);
  project.provide('sharedCache', folder);
  return () => rmSync(folder, { recursive: true, force: true });
}
