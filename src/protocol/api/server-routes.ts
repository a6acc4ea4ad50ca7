/** Routes of the server itself: health, status, stop, metrics and documentation. */

import { z } from 'zod';
import { ServerEnd, ServerStatus, StopServer } from '../server-info.ts';
import { anyone, route, user } from './route.ts';

export const serverRoutes = {
  showHome: route('GET /', 'Server', {
    auth: anyone,
    summary: 'A page that says what this is',
    produces: ['text/html'],
  }),

  getHealth: route('GET /health', 'Server', {
    auth: anyone,
    summary: 'Whether the server answers',
    response: z.object({ status: z.literal('ok') }),
  }),

  getReady: route('GET /ready', 'Server', {
    auth: user(),
    summary: 'Whether it takes new work and reaches its storage',
    response: z.object({ status: z.literal('ready') }),
  }),

  getServer: route('GET /v1/server', 'Server', {
    auth: user('admin'),
    summary: 'How the server does',
    response: ServerStatus,
  }),

  stopServer: route('POST /v1/server/stop', 'Server', {
    auth: user('admin'),
    summary: 'End the server in good order; again, with a shorter grace, to end it sooner',
    audit: 'server.stop',
    body: StopServer,
    whileDraining: true,
  }),

  getServerEnd: route('GET /v1/server/end', 'Server', {
    auth: user('admin'),
    summary: 'Wait until the server ends; it answers when everything is saved, or says what could not be',
    response: ServerEnd,
  }),

  readMetrics: route('GET /metrics', 'Server', {
    auth: user(),
    summary: 'Numbers for Prometheus',
    produces: ['text/plain'],
  }),

  readOpenApi: route('GET /openapi.json', 'Server', {
    auth: user(),
    summary: 'This document',
    produces: ['application/json'],
  }),

  showDocs: route('GET /docs', 'Server', {
    auth: user(),
    summary: 'This document, to be read',
    produces: ['text/html'],
  }),
};
