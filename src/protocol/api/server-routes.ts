/** Routes of the server itself: health, status, stop, metrics and documentation. */

import { z } from 'zod';
import { ServerEnd, ServerStatus, StopServer } from '../server-info.ts';
import { anyone, route, user } from './route.ts';

export const serverRoutes = {
  showHome: route('GET /', 'Server', { auth: anyone, summary: 'A start page', produces: ['text/html'] }),

  getHealth: route('GET /health', 'Server', {
    auth: anyone,
    summary: 'Check that the server answers',
    response: z.object({ status: z.literal('ok') }),
  }),

  getReady: route('GET /ready', 'Server', {
    auth: user(),
    summary: 'Check that the server accepts work and that its storage accepts writes',
    response: z.object({ status: z.literal('ready') }),
  }),

  getServer: route('GET /v1/server', 'Server', {
    auth: user('admin'),
    summary: 'Get the status of the server',
    response: ServerStatus,
  }),

  stopServer: route('POST /v1/server/stop', 'Server', {
    auth: user('admin'),
    summary: 'Shut the server down cleanly; call it again with a shorter grace period to shut down sooner',
    audit: 'server.stop',
    body: StopServer,
    whileDraining: true,
  }),

  getServerEnd: route('GET /v1/server/end', 'Server', {
    auth: user('admin'),
    summary: 'Wait for the end of the shutdown; the response says what could not be saved',
    response: ServerEnd,
  }),

  readMetrics: route('GET /metrics', 'Server', {
    auth: user(),
    summary: 'Metrics for Prometheus',
    produces: ['text/plain'],
  }),

  readOpenApi: route('GET /openapi.json', 'Server', {
    auth: user(),
    summary: 'This OpenAPI document',
    produces: ['application/json'],
  }),

  showDocs: route('GET /docs', 'Server', { auth: user(), summary: 'This document as a page', produces: ['text/html'] }),
};
