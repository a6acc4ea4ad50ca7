/** Running code: one JSON result, or its events as they come; interrupting it, and answering what it asks. */

import * as executionRoutes from '../../../protocol/api/execution-routes.ts';
import type { ServerExecuteOptions } from '../../sessions/session-types.ts';
import { admitExecution } from '../admit-execution.ts';
import { cut } from '../exchange.ts';
import { feed } from '../feed.ts';
import { idempotencyKeyOf } from '../idempotency-key.ts';
import type { Service } from '../service.ts';
import { formOf } from '../streams.ts';

export function addExecutionRoutes(service: Service): void {
  const { routes, host } = service;

  routes.session(executionRoutes.ExecuteCode, async ({ info, body, principal, context, recheck, about }) => {
    const { code, stopWhenGone, timeoutMs, inputTimeoutMs, transaction } = body;
    const idempotencyKey = idempotencyKeyOf(context);
    await admitExecution(service, info);
    const session = await host.open(info.id);
    // Whoever only wanted to start it may go.
    const gone = stopWhenGone ? new AbortController() : undefined;
    const options: ServerExecuteOptions = {
      by: principal.userId,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(inputTimeoutMs === undefined ? {} : { inputTimeoutMs }),
      ...(transaction === undefined ? {} : { transaction }),
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      ...(gone === undefined ? {} : { signal: gone.signal }),
    };
    if (gone) context.req.raw.signal.addEventListener('abort', () => gone.abort());
    const form = formOf(context.req.header('accept'));
    if (form !== 'json') service.followers.check(principal);
    if (form === 'json') {
      const { result, execution, firstSeq, joined } = await session.execute(code, options);
      return { ...result, execution, firstSeq, joined };
    }
    // Told at once that it was accepted, however long it waits.
    const { execution, started, outcome } = await session.accept(code, options);
    about({}, outcome);
    return feed(service, session, {
      form,
      after: started.then((firstSeq) => firstSeq - 1),
      execution,
      principal,
      recheck,
      cut: () => cut(context.env),
      onGone: () => gone?.abort(),
    });
  });

  routes.session(executionRoutes.InterruptCode, async ({ info, body: { idempotencyKey } }) => {
    const session = await host.open(info.id);
    const interrupted =
      idempotencyKey === undefined ? await session.interrupt() : await session.interruptKeyed(idempotencyKey);
    return { interrupted };
  });

  routes.session(executionRoutes.AnswerInput, async ({ info, body, principal }) => {
    const session = await host.open(info.id);
    const by = principal.userId;
    if ('text' in body) await session.answerInput(body.request, body.text, { by });
    else await session.cancelInput(body.request, { by, ...(body.reason === undefined ? {} : { reason: body.reason }) });
    return undefined;
  });
}
