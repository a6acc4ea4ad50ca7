/** The container engine of the benchmark: one of its own, with the default image, and Docker's client as the peer. */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { CellaError } from '../src/protocol/errors.ts';
import { DockerEngine } from '../test/support/docker/docker.ts';

export interface BenchEngine extends AsyncDisposable {
  readonly address: string;
  readonly image: string;
  /** Starts a container of the image that does nothing, and waits for its end, as a person would. */
  dockerRun(): Promise<void>;
}

const run = promisify(execFile);

export async function startEngine(build: (address: string) => Promise<string>): Promise<BenchEngine> {
  await need('dockerd', 'docker.io');
  await need('docker', 'docker.io');
  const engine = await DockerEngine.start();
  try {
    const { address } = engine;
    const image = await build(address);
    const argv = ['-H', address, 'run', '--rm', '--network', 'none', image, 'python3', '-c', 'pass'];
    return {
      address,
      image,
      dockerRun: async () => void (await run('docker', argv)),
      [Symbol.asyncDispose]: () => engine.remove(),
    };
  } catch (error) {
    await engine.remove();
    throw error;
  }
}

async function need(program: string, name: string): Promise<void> {
  try {
    await run(program, ['--version']);
  } catch (cause) {
    const message = `The benchmark compares containers with \`docker run\`, and there is no ${program}. On Debian: apt-get install ${name}.`;
    throw new CellaError('PEER_MISSING', message, { cause, details: { missing: program } });
  }
}
