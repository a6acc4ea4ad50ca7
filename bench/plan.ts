/** Rounds and sizes. `full` gives meaningful numbers; `quick` checks within seconds that everything works. */

export interface Plan {
  /** Each round starts one ipykernel and several kernels of Cella, which start fast. */
  readonly start: { readonly rounds: number; readonly cellaPerRound: number };
  /** `cellsBefore`: what the host does in another session right before each open. */
  readonly spare: { readonly rounds: number; readonly warmUps: number; readonly cellsBefore: number };
  readonly roundTrip: { readonly rounds: number; readonly cellsPerRound: number; readonly warmUpCells: number };
  readonly memory: { readonly kernels: number };
  readonly bigPrint: { readonly rounds: number; readonly bytes: number };
  readonly smallPrints: { readonly rounds: number; readonly lines: number; readonly lineBytes: number };
  readonly interrupt: { readonly rounds: number };
  readonly firstByte: { readonly rounds: number };
  readonly density: { readonly kernels: number };
  readonly rollback: { readonly rounds: number; readonly megabytes: number };
  readonly rollback1gb: { readonly rounds: number; readonly megabytes: number };
  readonly state: { readonly rounds: number };
  readonly pool: { readonly keys: number; readonly kernels: number };
  readonly executors: {
    readonly starts: number;
    readonly spares: number;
    /** Lets Node optimize the code first. */
    readonly spareWarmUps: number;
    readonly cells: number;
    readonly bytes: number;
    readonly kernels: number;
  };
  /** Lets Node optimize the code first. Jupyter's server does not become faster with use, and is slow for each cell. */
  readonly server: {
    readonly rounds: number;
    /** Long enough to measure a busy server, not one that wakes up after its peer's turn. */
    readonly cellsPerRound: number;
    readonly warmUpCells: number;
    readonly jupyterCellsPerRound: number;
    readonly jupyterWarmUpCells: number;
  };
  readonly agents: { readonly starts: number; readonly calls: number; readonly warmUpCalls: number };
  readonly gateway: { readonly rounds: number; readonly callsPerRound: number; readonly warmUpCalls: number };
  /** `seconds`: the duration of each kind of load, and of the quiet time before it. */
  readonly neighbours: { readonly runs: number; readonly seconds: number; readonly warmUpCells: number };
}

export const full: Plan = {
  start: { rounds: 20, cellaPerRound: 5 },
  spare: { rounds: 100, warmUps: 100, cellsBefore: 20 },
  roundTrip: { rounds: 10, cellsPerRound: 200, warmUpCells: 500 },
  memory: { kernels: 5 },
  bigPrint: { rounds: 5, bytes: 50_000_000 },
  smallPrints: { rounds: 5, lines: 500_000, lineBytes: 100 },
  interrupt: { rounds: 200 },
  firstByte: { rounds: 100 },
  density: { kernels: 200 },
  rollback: { rounds: 20, megabytes: 100 },
  rollback1gb: { rounds: 5, megabytes: 1000 },
  state: { rounds: 20 },
  pool: { keys: 1000, kernels: 50 },
  executors: { starts: 10, spares: 20, spareWarmUps: 20, cells: 400, bytes: 50_000_000, kernels: 3 },
  server: { rounds: 10, cellsPerRound: 500, warmUpCells: 4000, jupyterCellsPerRound: 100, jupyterWarmUpCells: 200 },
  agents: { starts: 20, calls: 5000, warmUpCalls: 2000 },
  gateway: { rounds: 10, callsPerRound: 50, warmUpCalls: 100 },
  neighbours: { runs: 3, seconds: 60, warmUpCells: 2000 },
};

export const quick: Plan = {
  start: { rounds: 2, cellaPerRound: 2 },
  spare: { rounds: 5, warmUps: 1, cellsBefore: 5 },
  roundTrip: { rounds: 2, cellsPerRound: 20, warmUpCells: 5 },
  memory: { kernels: 1 },
  bigPrint: { rounds: 2, bytes: 10_000_000 },
  smallPrints: { rounds: 1, lines: 100_000, lineBytes: 100 },
  interrupt: { rounds: 5 },
  firstByte: { rounds: 5 },
  density: { kernels: 20 },
  rollback: { rounds: 2, megabytes: 20 },
  rollback1gb: { rounds: 1, megabytes: 100 },
  state: { rounds: 2 },
  pool: { keys: 12, kernels: 4 },
  executors: { starts: 1, spares: 1, spareWarmUps: 0, cells: 20, bytes: 1_000_000, kernels: 1 },
  server: { rounds: 2, cellsPerRound: 10, warmUpCells: 5, jupyterCellsPerRound: 10, jupyterWarmUpCells: 5 },
  agents: { starts: 2, calls: 100, warmUpCalls: 10 },
  gateway: { rounds: 2, callsPerRound: 10, warmUpCalls: 5 },
  neighbours: { runs: 1, seconds: 2, warmUpCells: 50 },
};
