/** Pythons that this machine need not have, as far as packages must fit them. */

import type { Interpreter } from '../../../src/protocol/environment-spec.ts';

export const alpine: Interpreter = {
  tag: 'cp312-musl-x86_64',
  version: [3, 12],
  patch: 4,
  platforms: ['musllinux_1_2_x86_64', 'musllinux_1_1_x86_64', 'linux_x86_64'],
};

export const old: Interpreter = {
  tag: 'cp39-x86_64',
  version: [3, 9],
  platforms: ['manylinux_2_28_x86_64', 'manylinux_2_17_x86_64', 'manylinux2014_x86_64', 'linux_x86_64'],
};

export const pyodide: Interpreter = { tag: 'cp314-wasm32', version: [3, 14], patch: 2, platforms: [] };
