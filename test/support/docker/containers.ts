/** What an engine of the tests says of Cella's containers, and what an administrator may do to them. */

import { join } from 'node:path';
import type Docker from 'dockerode';
import { dataId, LABEL } from '../../../src/environments/container/container.ts';
import { connectEngine } from '../../../src/environments/container/engine.ts';

export class Administrator {
  readonly #docker: Docker;

  private constructor(docker: Docker) {
    this.#docker = docker;
  }

  static async of(address: string): Promise<Administrator> {
    return new Administrator((await connectEngine(address)).docker);
  }

  /** The containers of a data folder, running or not. */
  async containersOf(dataDir: string): Promise<Docker.ContainerInfo[]> {
    const label = [`${LABEL.cella}=1`, `${LABEL.data}=${dataId(dataDir)}`];
    return await this.#docker.listContainers({ all: true, filters: { label } });
  }

  /** The one container of a data folder. */
  async only(dataDir: string): Promise<Docker.Container> {
    const [found, ...others] = await this.containersOf(dataDir);
    if (!found || others.length > 0) throw new Error(`${others.length + (found ? 1 : 0)} containers instead of one`);
    return this.#docker.getContainer(found.Id);
  }

  /** All that the engine says of one and its image and has heard from it, and the folder where it keeps that. */
  async allOf(id: string): Promise<{ readonly text: string; readonly folder: string }> {
    const container = this.#docker.getContainer(id);
    const [inspected, top, changes, logs, info] = await Promise.all([
      container.inspect(),
      container.top({ ps_args: '-eo pid,args' }),
      container.changes(),
      container.logs({ stdout: true, stderr: true }),
      this.#docker.info(),
    ]);
    const image = await this.#docker.getImage(inspected.Image).inspect();
    const text = [JSON.stringify([inspected, top, changes, image]), String(logs)].join('\n');
    return { text, folder: join(info.DockerRootDir, 'containers', id) };
  }
}
