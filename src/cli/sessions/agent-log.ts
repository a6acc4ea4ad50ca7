/** The turns of a coding agent in the log of a session: what a person at the terminal of the turn saw, with the prompt. */

import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import { Rendering, type Shown } from '../agent/render.ts';
import { toPlain } from '../texts.ts';

export class AgentLog {
  #rendering = new Rendering();

  take(event: AgentLogEvent): Shown[] {
    switch (event.type) {
      case 'turn_started': {
        this.#rendering = new Rendering();
        const lines = event.prompt.split('\n').map((line) => `${event.agent}> ${toPlain(line)}`);
        return [whole(lines.join('\n'), 'bold')];
      }
      case 'permission_requested':
        return [whole(`  (asks for leave: ${toPlain(event.tool)} ${toPlain(event.summary)})`, 'yellow')];
      case 'question':
        return [whole(`  (asks: ${toPlain(event.text)})`, 'yellow')];
      default:
        return this.#rendering.take(event);
    }
  }
}

const whole = (text: string, style: NonNullable<Shown['style']>): Shown => ({
  stream: 'out',
  text,
  style,
  whole: true,
});
