#!/usr/bin/env node
'use strict';
/** Starts Cella in this Node where it is recent enough, else in the Node 24 that came with the package. */

const { spawn } = require('node:child_process');
const { constants } = require('node:os');
const fs = require('node:fs');
const path = require('node:path');
const { isatty } = require('node:tty');

const NEEDED = 24;
// Node would open its debugger at this signal, on a port that every local user can connect to.
const NO_DEBUGGER = '--disable-sigusr1';
process.on('SIGUSR1', () => {});
// A warning of Node's own that nobody can read, as on a full disk, is no reason to end.
process.stderr.on('error', () => {});
// Whoever waits for a disk that hangs keeps a thread of this pool until it answers, and all files share it.
process.env.UV_THREADPOOL_SIZE ??= '32';
const main = path.join(__dirname, '..', 'dist', 'main.js');

function fail(message) {
  process.stderr.write(`cella: ${message}\n`);
  process.exit(1);
}

function bundledNode() {
  try {
    const folder = path.dirname(require.resolve(`node-${process.platform}-${process.arch}/package.json`));
    const node = path.join(folder, 'bin', 'node');
    return fs.existsSync(node) ? node : undefined;
  } catch {
    return undefined;
  }
}

/** The child has this terminal and these streams. This process only waits, and passes on what it alone was sent. */
function handOver(node) {
  // The channel carries no messages: its end tells the child that this process is gone, even after SIGKILL.
  const child = spawn(node, [NO_DEBUGGER, __filename, ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  // Ctrl-C at a terminal reaches both processes; passed on, it would count twice.
  const atTerminal = [0, 1, 2].some((fd) => isatty(fd));
  process.on('SIGINT', () => atTerminal || child.kill('SIGINT'));
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  process.on('SIGHUP', () => child.kill('SIGHUP'));
  child.on('error', (error) => fail(`${node} does not start: ${error.message}`));
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    // A signal that does not end this process, such as one that the parent ignores, still has its exit code.
    setTimeout(() => process.exit(128 + constants.signals[signal]), 100);
  });
}

if (!fs.existsSync(main)) {
  fail(
    `${main} is missing. In a checkout, run \`npm ci\` and \`npm run build\` first; else install the package again.`,
  );
} else if (Number(process.versions.node.split('.')[0]) >= NEEDED) {
  import(require('node:url').pathToFileURL(main).href);
} else {
  const node = bundledNode();
  if (node) handOver(node);
  else
    fail(
      `Node ${NEEDED} or later is needed, and this is ${process.version}. Get it from https://nodejs.org, or install ` +
        'Cella again with its optional dependencies (`npm install --include=optional`), which bring one on Linux x64.',
    );
}
