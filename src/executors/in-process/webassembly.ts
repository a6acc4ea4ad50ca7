/** WebAssembly as Node has it: its types belong to browsers, and are not among the libraries of this package. */

/** Compiled code, which workers can share. */
export interface Code {
  readonly [Symbol.toStringTag]: string;
}

export interface Instance {
  readonly exports: object;
}

interface Namespace {
  readonly Module: new (bytes: Uint8Array) => Code;
  compile(bytes: Uint8Array): Promise<Code>;
  instantiate: (code: Code | Uint8Array, imports: object) => Promise<unknown>;
}

export const wasm = (globalThis as unknown as { WebAssembly: Namespace }).WebAssembly;
