/** A worker that starts Pyodide without a memory image and imports the kernel from its sources: the peer of the memory image. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { loadPyodide } from 'pyodide';

const INSIDE = '/lib/cella/cella_kernel';
const python = await loadPyodide();
for (const entry of readdirSync(workerData, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !entry.name.endsWith('.py')) continue;
  const folder = join(INSIDE, entry.parentPath.slice(workerData.length));
  python.FS.mkdirTree(folder);
  python.FS.writeFile(join(folder, entry.name), readFileSync(join(entry.parentPath, entry.name)));
}
python.FS.mkdirTree('/agent/workspace');
const settings = JSON.stringify({ mode: 'build', preload: [] });
python.runPython(readFileSync(join(workerData, 'pyodide', 'entry.py'), 'utf8'), {
  filename: `${INSIDE}/pyodide/entry.py`,
  globals: python.toPy({ settings, folder: INSIDE }),
});
parentPort.postMessage('ready');
