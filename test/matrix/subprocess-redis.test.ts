import { matrix } from './matrix.ts';

matrix({ executor: 'subprocess', storage: 'redis' });
