/** Entry of the worker thread: starts Pyodide, from its memory image if there is one, and runs the kernel to its end. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { loadPyodide } from 'pyodide';
import { messageOf } from '../../../lib/values.ts';
import type { HelperTask, KernelTask, MemoryImageTask, WorkerMessage, WorkerTask } from '../shared-memory.ts';
import { SharedMemory } from '../shared-memory.ts';
import {
  adaptImports,
  type CompiledCode,
  type Emscripten,
  type Imports,
  type Insides,
  type Python,
  wasm,
} from './emscripten.ts';
import { EmscriptenDevices, makePipesWait, mountFolders } from './emscripten-files.ts';

/** The path of the kernel's sources inside, while the memory image is created. */
const INSIDE = '/lib/cella/cella_kernel';
/** An empty object: it exposes no process, network or file of the host. */
const NOTHING = Object.freeze(Object.create(null));

const order: WorkerTask = workerData;
const host = parentPort as MessagePort;
const say = (word: WorkerMessage): void => host.postMessage(word);

try {
  if (order.kind === 'memory-image') await makeMemoryImage(order);
  else if (order.kind === 'program') await answerTexts(order);
  else await runKernel(order);
} catch (error) {
  say(endOf(error));
}

async function makeMemoryImage(task: MemoryImageTask): Promise<void> {
  const { python, module } = await load(task, new SharedMemory());
  copySources(module, task.sources);
  python.FS.mkdirTree('/agent/workspace');
  const notPreloaded = JSON.parse(String(enter(python, { mode: 'build', preload: task.preload })));
  say({ memoryImage: python.makeMemorySnapshot(), notPreloaded });
}

async function answerTexts(task: HelperTask): Promise<void> {
  const { python } = await load(task, new SharedMemory());
  const globals = python.toPy({ __name__: 'program' });
  python.runPython(task.program, { globals });
  const reply = globals.get('reply');
  host.on('message', (text: string) => say({ line: String(reply(text)) }));
  say({ line: 'ready' });
}

async function runKernel(task: KernelTask): Promise<void> {
  const sharedMemory = new SharedMemory(task.memory);
  const { python, module } = await load(task, sharedMemory, task.memoryImage, task.memoryBytes);
  sharedMemory.set('heap', module.HEAPU8.length);
  mountFolders(module, task.spec, () => sharedMemory.movedTo());
  new EmscriptenDevices(module, sharedMemory, host).install();
  const reader: number = python.runPython('__import__("os").pipe()[0]');
  makePipesWait(module, sharedMemory, reader);
  for (const end of [reader, reader + 1]) closeStream(module, end);
  python.setInterruptBuffer(sharedMemory.signal);
  // Pyodide's own handler would write its details to the code's output.
  module.API.fatal_error = (error) => {
    throw error;
  };
  enter(python, { mode: 'serve', env: task.env, cwd: task.spec.cwd });
}

function closeStream({ FS }: Emscripten, fd: number): void {
  const stream = FS.getStream(fd);
  if (stream) FS.close(stream);
}

function enter(python: Python, settings: object): unknown {
  const entry = `${INSIDE}/pyodide/entry.py`;
  // The memory image contains the kernel's own modules; the entry is the only source text that runs here.
  const text = readFileSync(join(order.sources, 'pyodide', 'entry.py'), 'utf8');
  return python.runPython(text, {
    filename: entry,
    globals: python.toPy({ settings: JSON.stringify(settings), folder: INSIDE }),
  });
}

async function load(
  { pyodide, lock, wasm: code }: WorkerTask,
  sharedMemory: SharedMemory,
  memoryImage?: SharedArrayBuffer,
  memoryBytes = Number.POSITIVE_INFINITY,
): Promise<{ python: Python; module: Emscripten }> {
  const { default: factory }: { default: Insides['createPyodideModule'] } = await import(`${pyodide}pyodide.asm.mjs`);
  let module: Emscripten | undefined;
  const insides: Insides = {
    createPyodideModule: async (settings) => {
      const own = settings.instantiateWasm;
      settings.instantiateWasm = (imports: Imports, done) => {
        adaptImports(imports, settings, sharedMemory, memoryBytes);
        return own(imports, done);
      };
      module = await factory(settings);
      // The image is copied over the memory as it is.
      if (memoryImage && memoryImage.byteLength > module.HEAPU8.length) module.growMemory(memoryImage.byteLength);
      return module;
    },
  };
  shareCode(code);
  const python = await loadPyodide({
    indexURL: pyodide,
    jsglobals: NOTHING,
    env: { HOME: '/agent/home' },
    lockFileContents: lock,
    ...(memoryImage ? { _loadSnapshot: new Uint8Array(memoryImage) } : { _makeSnapshot: true }),
    // Pyodide's types do not declare all of its settings.
    ...(insides as object),
  });
  if (!module) throw new Error('Pyodide did not create its module');
  return { python, module };
}

/** Compiles the code once for all workers; Pyodide would compile it again in each. */
function shareCode(code: CompiledCode): void {
  const own = wasm.instantiate;
  wasm.instantiate = async (given, imports) => {
    if (given instanceof wasm.Module) return await own(given, imports);
    wasm.instantiate = own;
    return { module: code, instance: await own(code, imports) };
  };
}

function copySources(module: Emscripten, from: string): void {
  for (const entry of readdirSync(from, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith('.py')) continue;
    const folder = join(INSIDE, entry.parentPath.slice(from.length));
    module.FS.mkdirTree(folder);
    module.FS.writeFile(join(folder, entry.name), readFileSync(join(entry.parentPath, entry.name)));
  }
}

/** os._exit throws an object with a status; anything else is a crash of the interpreter. */
function endOf(error: unknown): WorkerMessage {
  if (typeof error === 'object' && error !== null && 'status' in error && typeof error.status === 'number') {
    return { exitCode: error.status };
  }
  const [first = '', ...rest] = messageOf(error).split('\n');
  // The error message follows the traceback's frames.
  return { problem: rest.find((line) => first.startsWith('Traceback') && /^\S/.test(line)) ?? first };
}
