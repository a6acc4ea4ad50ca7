/** The result of a run, in the shape that `--json` prints. */

export interface Times {
  readonly cellaMs: number;
  readonly ipykernelMs: number;
  readonly ratio: number;
  readonly cellaP95Ms: number;
  readonly ipykernelP95Ms: number;
}

export interface Throughput {
  readonly cellaMbPerS: number;
  readonly ipykernelMbPerS: number;
  readonly ratio: number;
}

export interface Milliseconds {
  readonly ms: number;
  readonly p95Ms: number;
}

export interface Rollback {
  readonly megabytes: number;
  readonly cellaMs: number;
  readonly cloudpickleMs: number;
  readonly ratio: number;
}

/** Of one executor; medians. */
export interface ExecutorNumbers {
  /** `Session.open` without a spare, after the first. */
  readonly startMs: number;
  /** `Session.open` and `1+1`, with a spare. */
  readonly spareMs: number;
  readonly roundTripMs: number;
  /** Of one more kernel. */
  readonly memoryMb: number;
  readonly bigPrintMbPerS: number;
}

export interface Executors {
  readonly subprocess: ExecutorNumbers;
  /** `startRatio`: to `docker run`. `roundTripRatio`: to subprocess. */
  readonly container: ExecutorNumbers & {
    readonly dockerRunMs: number;
    readonly startRatio: number;
    readonly roundTripRatio: number;
  };
  /** `coldMs`: Pyodide without a snapshot, with the same kernel. */
  readonly inProcess: ExecutorNumbers & { readonly coldMs: number; readonly startRatio: number };
}

/** `x=1` in a row; medians. */
export interface ServerTimes {
  /** In this process, without a server. */
  readonly libraryMs: number;
  /** One JSON answer on a kept-alive connection. */
  readonly httpMs: number;
  readonly httpP95Ms: number;
  /** Of HTTP over the library. */
  readonly overheadMs: number;
  readonly webSocketMs: number;
  readonly webSocketP95Ms: number;
  /** Jupyter's server, over its WebSocket. */
  readonly jupyterMs: number;
  readonly jupyterP95Ms: number;
  /** Jupyter's time to that of HTTP. */
  readonly ratio: number;
}

/** To the first byte of a stream; medians. */
export interface Gateway {
  readonly directMs: number;
  readonly gatewayMs: number;
  readonly gatewayP95Ms: number;
  readonly addedMs: number;
}

/** The runner of coding agents; medians. */
export interface Agents {
  /** From the start of its process to its answer to `hello`; Node alone beside it. */
  readonly startMs: number;
  readonly startP95Ms: number;
  readonly nodeMs: number;
  readonly memoryMb: number;
  /** One call after the other; and how many a second, 64 at a time. */
  readonly callMs: number;
  readonly callP95Ms: number;
  readonly callsPerS: number;
}

/** The duration of a small cell of one user while another causes load; medians over the runs. */
export interface Neighbour {
  readonly noise: string;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** The p99 divided by that of the same run without load. */
  readonly ratio: number;
}

/** Kernels of the library compared with ipykernel. */
export interface Kernels {
  readonly start: Times;
  /** In a busy host; and after a time in which host and kernels did nothing. */
  readonly spare: {
    readonly firstResultMs: number;
    readonly p95Ms: number;
    readonly afterRestMs: number;
    readonly afterRestP95Ms: number;
  };
  readonly roundTrip: Times;
  readonly memory: { readonly cellaMb: number; readonly ipykernelMb: number; readonly ratio: number };
  readonly bigPrint: Throughput;
  readonly smallPrints: Throughput;
  readonly interrupt: { readonly p50Ms: number; readonly p99Ms: number };
  /** From a print until the host has its text, while the code keeps running. */
  readonly firstByte: Milliseconds;
  readonly density: {
    readonly kernels: number;
    readonly totalMb: number;
    readonly privateMb: number;
    readonly lost: number;
  };
  readonly rollback: Rollback;
  readonly rollback1gb: Rollback;
  readonly checkpoint: Milliseconds;
  readonly fork: Milliseconds;
  /** `waitMs`: how much longer a cell takes if it arrives during a save. */
  readonly save: Milliseconds & { readonly waitMs: number; readonly waitP95Ms: number };
  readonly resume: Milliseconds;
  readonly pool: {
    readonly keys: number;
    readonly kernels: number;
    readonly found: number;
    readonly mostMb: number;
    readonly seconds: number;
  };
  readonly templateMs: number;
  readonly templateMb: number;
}

/** Parts that were not requested are missing. */
export interface BenchResult {
  readonly kernels?: Kernels;
  readonly executors?: Executors;
  readonly server?: ServerTimes;
  readonly gateway?: Gateway;
  readonly agents?: Agents;
  /** The first entry is without load. */
  readonly neighbours?: readonly Neighbour[];
  readonly machine: Machine;
}

export const parts = ['kernels', 'executors', 'server', 'gateway', 'agents', 'neighbours'] as const;
export type Part = (typeof parts)[number];

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGb: number;
  readonly kernel: string;
  readonly node: string;
  readonly python: string;
  readonly ipykernel: string;
  readonly jupyterServer?: string;
}
